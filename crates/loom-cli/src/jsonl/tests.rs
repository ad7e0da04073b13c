use loom_spi::Event;
use serde_json::Value;

use super::*;

fn parse(line: &str) -> Line {
    Line::parse(line.as_bytes()).unwrap_or_else(|bad| panic!("{line}: {bad}"))
}

fn stored(line: &Line) -> Event {
    Event::from_new(0, line.to_event())
}

fn exported(line: &Line) -> String {
    let mut out = Vec::new();
    write_line(&mut out, &line.execution, &stored(line));
    String::from_utf8(out).unwrap()
}

fn payload_event(payload: &[u8], terminal: bool) -> Event {
    let new = NewEvent::new("k", payload.to_vec()).recorded_at(Timestamp::from_millis(5));
    Event::from_new(0, if terminal { new.terminal() } else { new })
}

#[test]
fn a_line_is_taken_apart() {
    let line = parse(
        r#"{"resource":"R 26","execution":"p-1","at":-5,"type":"T02 \"x\"","n":[1, 2],"last":true}"#,
    );
    assert_eq!(line.execution.as_str(), "p-1");
    assert_eq!(line.at.as_millis(), -5);
    assert_eq!(&*line.kind, "T02 \"x\"");
    assert!(line.last);
    assert_eq!(line.payload, r#"{"resource":"R 26","n":[1,2]}"#);
}

#[test]
fn what_is_exported_are_the_same_json_values() {
    for text in [
        r#"{"execution":"e","at":1,"type":"t"}"#,
        r#"{"execution":"e","at":1,"type":"t","last":true}"#,
        r#"{"execution":"e","at":1,"type":"t","last":false}"#,
        r#"{"type":"t","z":{"b":1,"a":[true,null, "x y\" z"]},"at":0,"execution":"é","a":""}"#,
        r#"{"execution":"e","at":1,"type":"t","$payload":7}"#,
        r#"{"execution":"e","at":1,"type":"t","$payload":{"json":1,"x":2}}"#,
        r#"{"execution":"e","at":1,"type":"t","$payload":{"json":1},"x":2}"#,
        r#"{"execution":"e","at":1,"type":"t","x":2,"$payload":{"base64":"!"}}"#,
        r#"{"execution":"e","at":1,"type":"t","payload":{},"sequence":9}"#,
    ] {
        let line = parse(text);
        let again = exported(&line);
        assert_eq!(
            serde_json::from_str::<Value>(&again).unwrap(),
            serde_json::from_str::<Value>(text).unwrap(),
        );
        assert_eq!(parse(again.trim_end()), line, "{again}");
        assert!(line.matches(&stored(&line)));
    }
}

#[test]
fn the_text_of_numbers_is_kept() {
    let line = parse(
        r#"{"execution":"e","at":1,"type":"t","n":1e400,"m":0.10,"k":123456789012345678901234567890}"#,
    );
    assert_eq!(
        exported(&line),
        "{\"execution\":\"e\",\"at\":1,\"type\":\"t\",\"n\":1e400,\"m\":0.10,\"k\":123456789012345678901234567890}\n"
    );
}

#[test]
fn any_payload_comes_back_as_it_was() {
    for (payload, terminal) in [
        (&b""[..], false),
        (b"{}", false),
        (b"{}", true),
        (b"null", false),
        (b"[1,2]", true),
        (b"\"text\"", false),
        (b"plain text", false),
        (b"\xff\x00", false),
        (b"{\"a\":1,\"a\":2}", false),
        (b"{\"at\":1}", false),
        (b"{\"last\":true}", false),
        (b"{\"last\":false}", false),
        (b"{\"last\":false}", true),
        (b"{\"last\":1}", true),
        (b"{\"$payload\":{\"json\":1}}", false),
        (b"{\"$payload\":{\"base64\":7}}", false),
        (b"{\"$payload\":{\"json\":1},\"a\":1}", false),
        (b"{\"execution\":\"other\",\"type\":\"u\"}", true),
    ] {
        let event = payload_event(payload, terminal);
        let mut out = Vec::new();
        write_line(&mut out, &ExecutionId::new("e").unwrap(), &event);
        let line = parse(std::str::from_utf8(&out).unwrap().trim_end());
        assert_eq!(stored(&line), event, "{}", String::from_utf8_lossy(&out));
    }
}

#[test]
fn whitespace_in_a_stored_payload_is_no_difference_but_a_value_is() {
    let line = parse(r#"{"execution":"e","at":5,"type":"k","a":{"b":"c d"}}"#);
    assert!(line.matches(&payload_event(b"{ \"a\" : {\"b\": \"c d\" }\n}", false)));
    assert!(!line.matches(&payload_event(b"{\"a\":{\"b\":\"cd\"}}", false)));
    assert!(!line.matches(&payload_event(b"{\"a\":{\"b\":\"c d\"}}", true)));
    let mut later = stored(&line);
    later.recorded_at = Timestamp::from_millis(6);
    assert!(!line.matches(&later));
}

#[test]
fn a_bad_line_is_told_with_what_was_expected() {
    for (text, expected) in [
        ("", "expected"),
        (
            "nonsense",
            "2: not valid JSON (expected ident): expected one JSON object",
        ),
        ("[1]", "expected a JSON object"),
        (
            "{} {}",
            "4: not valid JSON (trailing characters): expected one JSON object",
        ),
        (r#"{"at":1,"type":"t"}"#, "expected a key `execution`"),
        (r#"{"execution":"e","type":"t"}"#, "expected a key `at`"),
        (r#"{"execution":"e","at":1}"#, "expected a key `type`"),
        (
            r#"{"execution":7,"at":1,"type":"t"}"#,
            "`execution` is `7`: expected a string",
        ),
        (
            r#"{"execution":"","at":1,"type":"t"}"#,
            "expected 1 to 255 bytes",
        ),
        (
            r#"{"execution":"a\nb","at":1,"type":"t"}"#,
            "control character",
        ),
        (
            r#"{"execution":"e","at":1.5,"type":"t"}"#,
            "`at` is `1.5`: expected whole milliseconds",
        ),
        (
            r#"{"execution":"e","at":"1","type":"t"}"#,
            "`at` is `\"1\"`: expected",
        ),
        (
            r#"{"execution":"e","at":99999999999999999999,"type":"t"}"#,
            "expected whole milliseconds",
        ),
        (
            r#"{"execution":"e","at":1,"type":null}"#,
            "`type` is `null`: expected a string",
        ),
        (r#"{"execution":"e","at":1,"type":"\ud800"}"#, "`type` is"),
        (
            r#"{"execution":"e","at":1,"type":"t","last":"yes"}"#,
            "`last` is `\"yes\"`: expected true or false",
        ),
        (
            r#"{"execution":"e","at":1,"type":"t","a":1,"a":2}"#,
            "`a` stands twice",
        ),
        (r#"{"execution":"e","at":1,"type":"t","a":01}"#, "expected"),
        (
            r#"{"execution":"e","at":1,"type":"t","$payload":{"base64":"!"}}"#,
            "expected RFC 4648",
        ),
        (r#"{"execution":"e","at":1,"type":"t""#, "EOF"),
    ] {
        let bad = Line::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(bad.contains(expected), "{text}\n{bad}");
        assert!(bad.contains("expected"), "{text}\n{bad}");
        assert!(!bad.contains("at line"), "{text}\n{bad}");
    }
    let bad = Line::parse(b"{\"execution\":\"\xff\"}").unwrap_err();
    assert_eq!(bad.to_string(), "15: expected UTF-8");
}
