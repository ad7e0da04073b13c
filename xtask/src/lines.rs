//! The difference of two short texts, for people.

/// The lines of both, in order: `-` for those that only `old` has, `+` for those that only `new` has.
///
/// By the longest common subsequence, in time and memory of one length times the other.
pub(crate) fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // common[i][j]: how many lines old[i..] and new[j..] have in common.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let mut text = String::new();
    let mut push = |mark: char, line: &str| {
        text.push(mark);
        text.push_str(line);
        text.push('\n');
    };
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            push(' ', old[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            push('-', old[i]);
            i += 1;
        } else {
            push('+', new[j]);
            j += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::diff;

    #[test]
    fn what_both_have_stays_and_the_rest_is_marked() {
        assert_eq!(
            diff("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n"),
            " a\n-b\n+x\n c\n d\n+e\n"
        );
        assert_eq!(diff("", "a\n"), "+a\n");
        assert_eq!(diff("a\nb\n", ""), "-a\n-b\n");
        assert_eq!(diff("", ""), "");
    }

    #[test]
    fn both_texts_can_be_read_back_from_it() {
        let side = |diff: &str, other: char| -> String {
            diff.lines()
                .filter(|line| !line.starts_with(other))
                .map(|line| format!("{}\n", &line[1..]))
                .collect()
        };
        for (old, new) in [
            ("a\na\nb\n", "b\na\na\n"),
            ("1\n2\n3\n4\n5\n", "5\n4\n3\n2\n1\n"),
            ("x\ny\n", "y\nx\ny\nx\n"),
        ] {
            let diff = diff(old, new);
            assert_eq!(side(&diff, '+'), old);
            assert_eq!(side(&diff, '-'), new);
        }
    }
}
