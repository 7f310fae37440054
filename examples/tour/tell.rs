//! What the person at the terminal reads. Colour only there.

use std::io::IsTerminal as _;
use std::time::Duration;

use crate::attacks::Caught;
use crate::stage::Broken;

const WIDTH: usize = 78;

fn paint(code: &str, text: &str) -> String {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

pub(crate) fn opening() {
    println!("{}", paint("1", "runseal: the tour"));
    println!("Agents act; somebody who does not trust their operator must be able to check the history.");
    println!("Everything below is real: separate processes, real files, real signatures, loopback HTTP.");
}

pub(crate) fn chapter(title: &str) {
    println!("\n{}", paint("1;36", title));
    println!("{}", paint("36", &"\u{2500}".repeat(title.chars().count().min(WIDTH))));
}

/// An honest step: what was done, what it shows.
pub(crate) fn step(what: &str, shows: &str) {
    println!("{} {what}", paint("32", "\u{2713}"));
    for line in wrap(shows, WIDTH - 4) {
        println!("    {}", paint("2", &line));
    }
}

/// A few lines quoted from an artefact.
pub(crate) fn quote(text: &str) {
    for line in text.lines() {
        let cut: String = line.chars().take(WIDTH - 6).collect();
        let more = if cut.len() < line.len() { "\u{2026}" } else { "" };
        println!("    {} {cut}{more}", paint("2", "\u{2502}"));
    }
}

pub(crate) fn attack(number: usize, caught: &Caught) {
    println!("\n{}", paint("1;31", &format!("{number:>2}. {}", caught.attack)));
    for line in wrap(caught.how, WIDTH - 6) {
        println!("      {}", paint("2", &line));
    }
    for catch in &caught.by {
        println!("   {} {}", paint("32", "\u{2713}"), paint("1", &catch.who));
        for line in wrap(&catch.said, WIDTH - 8) {
            println!("        {line}");
        }
    }
}

pub(crate) fn closing(caught: &[Caught], took: Duration) {
    chapter("What was attacked, and who caught it");
    let widest = caught.iter().map(|caught| caught.attack.chars().count()).max().unwrap_or(0);
    for caught in caught {
        let who: Vec<&str> = caught.by.iter().map(|catch| catch.who.as_str()).collect();
        println!("  {:widest$}  {}", caught.attack, who.join(", "));
    }
    println!(
        "\n{} {} attacks, none unnoticed, in {:.1} s.",
        paint("1;32", "Whole."),
        caught.len(),
        took.as_secs_f32()
    );
    println!("Next: README.md has the same in five commands; docs/format.md draws every byte.");
}

pub(crate) fn broken(broken: &Broken) {
    eprintln!("\n{} {broken}", paint("1;31", "The tour stopped:"));
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("starts with one line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
