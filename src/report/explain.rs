//! The text of `dlock explain`.

use crate::exit::{self, TableRow};
use crate::sys::signal_name;

/// Width of the text in columns.
const WIDTH: usize = 80;

/// Returns the explanation of the exit status `code`.
#[must_use]
pub fn status(code: u8) -> String {
    let row = exit::row_of(code);
    let mut text = format!("exit status {code}\n\n");
    text += &paragraph("meaning", &meaning(row, code));
    text += &paragraph("set by", row.set_by);
    text += "next\n";
    let lines = row.next.iter();
    let lines = lines.map(|(command, reason)| format!("  {command}\n      {reason}\n"));
    text + &lines.collect::<String>()
}

/// Returns the table of all exit statuses.
#[must_use]
pub fn all() -> String {
    let rows = exit::rows(None);
    let rows = rows.iter();
    rows.map(|(status, meaning)| paragraph(status, meaning))
        .collect()
}

/// Returns the meaning of `row`. For 128+n, the text contains the signal of `code`.
fn meaning(row: &TableRow, code: u8) -> String {
    if row.status != "128+n" {
        return match row.status {
            "the command's own" => {
                format!("the command exited with {code}; dlock passes its status on")
            }
            _ => row.meaning(),
        };
    }
    let number = code - 128;
    let name = signal_name::name(i32::from(number));
    format!(
        "128 + {number}: {name} killed the command, or ended dlock before it started the command"
    )
}

/// Returns `heading`, and below it `text`, wrapped and indented.
fn paragraph(heading: &str, text: &str) -> String {
    let mut paragraph = heading.to_owned();
    let mut column = WIDTH;
    for word in text.split(' ') {
        if column + 1 + word.len() > WIDTH {
            paragraph += "\n ";
            column = 1;
        }
        paragraph += " ";
        paragraph += word;
        column += 1 + word.len();
    }
    paragraph + "\n"
}

#[cfg(test)]
mod tests {
    use super::{all, status};

    #[test]
    fn explanations_of_one_status_of_each_kind() {
        let texts = [76, 75, 127, 137, 3].map(status);
        insta::assert_snapshot!(texts.join("\n"));
        assert!(texts.concat().lines().all(|line| line.len() <= 80));
    }

    #[test]
    fn explanation_of_all_statuses_fits_80_columns() {
        insta::assert_snapshot!(all());
        assert!(all().lines().all(|line| line.len() <= 80));
    }
}
