//! The function `strftime_now`: Python's `strftime`, in English.

use minijinja::{Error, ErrorKind};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// The letters of strftime that name a date or a time of day. `now` is in seconds since 1970, local.
pub fn strftime(format: &str, now: i64) -> Result<String, Error> {
    let mut text = String::new();
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let bare = letters.next_if_eq(&'-').is_some();
        let letter = letters.next();
        let Some(part) = letter.and_then(|letter| part(letter, now)) else {
            let shown = letter.map(String::from).unwrap_or_default();
            let message = format!("strftime_now: %{shown} is not supported");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        };
        // "%-d" is a number without the zero or blank in front.
        match part.trim_start_matches(['0', ' ']) {
            "" if bare => text.push('0'),
            number if bare => text += number,
            _ => text += &part,
        }
    }
    Ok(text)
}

fn part(letter: char, now: i64) -> Option<String> {
    let (days, seconds) = (now.div_euclid(86_400), now.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let month_name = MONTHS[month as usize - 1];
    let day_name = DAYS[days.rem_euclid(7) as usize];
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Some(match letter {
        'Y' => format!("{year:04}"),
        'y' => format!("{:02}", year.rem_euclid(100)),
        'm' => format!("{month:02}"),
        'B' => month_name.to_owned(),
        'b' | 'h' => month_name[..3].to_owned(),
        'd' => format!("{day:02}"),
        'e' => format!("{day:2}"),
        'j' => format!("{:03}", day_of_year(days)),
        'A' => day_name.to_owned(),
        'a' => day_name[..3].to_owned(),
        'H' => format!("{hour:02}"),
        'I' => format!("{:02}", (hour + 11) % 12 + 1),
        'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        'M' => format!("{minute:02}"),
        'S' => format!("{second:02}"),
        'F' => format!("{year:04}-{month:02}-{day:02}"),
        'D' => format!("{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
        'T' => format!("{hour:02}:{minute:02}:{second:02}"),
        'R' => format!("{hour:02}:{minute:02}"),
        '%' => "%".to_owned(),
        _ => return None,
    })
}

fn day_of_year(days: i64) -> i64 {
    let year = civil(days).0;
    (1..=366).find(|before| civil(days - before).0 != year).unwrap_or(366)
}

/// Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian), by walking whole
/// 400-year cycles and then single years and months.
fn civil(days: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097;
    let mut year = 1970 + 400 * days.div_euclid(CYCLE);
    let mut rest = days.rem_euclid(CYCLE);
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while rest >= 365 + i64::from(leap(year)) {
        rest -= 365 + i64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    loop {
        let length = match month {
            2 => 28 + i64::from(leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if rest < length {
            return (year, month, rest + 1);
        }
        rest -= length;
        month += 1;
    }
}
