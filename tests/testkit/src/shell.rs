//! Interactive shells on a terminal, which have loaded the completions of dlock.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::servers::{Database, fetched};
use crate::terminal::Terminal;

/// The key that completes the current word.
const TAB: &str = "\t";
/// The key that moves the cursor to the start of the line.
const CTRL_A: &str = "\x01";

/// Maximum time until a shell has printed the words of a command line.
const MAX_PRINT: Duration = Duration::from_secs(10);

const ATTEMPTS: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// bash with the package bash-completion.
    Bash,
    /// bash without other completions.
    BareBash,
    Zsh,
    Fish,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Bash, Self::BareBash, Self::Zsh, Self::Fish];

    /// Returns the file with the settings of the shell, and its content. The command `tool` completes its argument with
    /// `alpha`.
    fn settings(self) -> (&'static str, String) {
        let scripts = crate::repository().join("completions");
        let scripts = scripts.display();
        match self {
            Self::Bash => (
                ".bashrc",
                format!(
                    ". '{}'\n. '{scripts}/dlock.bash'\ncomplete -W alpha tool\nPS1='ready> '\n",
                    fetched("bash_completion").display()
                ),
            ),
            Self::BareBash => (
                ".bashrc",
                format!(". '{scripts}/dlock.bash'\nPS1='ready> '\n"),
            ),
            Self::Zsh => (
                ".zshrc",
                format!(
                    "fpath=('{scripts}' $fpath)\nautoload -U compinit\ncompinit -u -D\nbindkey -e\n\
                     _tool() {{ compadd alpha }}\ncompdef _tool tool\nPS1='ready> '\n"
                ),
            ),
            Self::Fish => (
                ".config/fish/config.fish",
                format!(
                    "set fish_greeting\nfunction fish_prompt; printf 'ready> '; end\n\
                     source '{scripts}/dlock.fish'\ncomplete -c tool -f -a alpha\n"
                ),
            ),
        }
    }

    fn command(self, home: &Path) -> Vec<String> {
        let path = |name| fetched(name).display().to_string();
        match self {
            Self::Bash | Self::BareBash => {
                let settings = home.join(".bashrc").display().to_string();
                ["bash", "--noprofile", "--rcfile", &settings, "-i"]
                    .map(str::to_owned)
                    .into()
            }
            Self::Zsh => vec![path("zsh"), "-d".to_owned(), "-i".to_owned()],
            Self::Fish => vec![path("fish"), "-i".to_owned()],
        }
    }
}

/// A shell, whose home folder is also its current folder.
pub struct Shell<'a> {
    kind: Kind,
    pub home: TempDir,
    database: &'a Database,
    /// The words of the command that starts the shell.
    words: Vec<String>,
    terminal: Terminal,
}

impl<'a> Shell<'a> {
    /// Starts a shell in which dlock uses `database`.
    #[track_caller]
    pub fn on(database: &'a Database, kind: Kind) -> Self {
        Self::with(database, kind, &[])
    }

    /// Like [`Self::on`], with more environment variables, each in the form NAME=VALUE.
    #[track_caller]
    pub fn with(database: &'a Database, kind: Kind, environment: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let (name, text) = kind.settings();
        let settings = home.path().join(name);
        fs::create_dir_all(settings.parent().expect("a file has a folder")).expect("a new folder");
        fs::write(settings, text).expect("the settings can be written");
        let bin = home.path().join("bin");
        fs::create_dir(&bin).expect("a new folder");
        symlink(crate::dlock(), bin.join("dlock")).expect("a new link");
        symlink("/bin/echo", bin.join("tool")).expect("a new link");

        let path = std::env::var("PATH").expect("the variable is set");
        let folder = home.path().display().to_string();
        let mut words: Vec<String> = [
            "env",
            &format!("--chdir={folder}"),
            &format!("PATH={}:{path}", bin.display()),
            &format!("HOME={folder}"),
            &format!("ZDOTDIR={folder}"),
            &format!("XDG_CONFIG_HOME={folder}/.config"),
            "LC_ALL=C.UTF-8",
        ]
        .map(str::to_owned)
        .into();
        words.extend(environment.iter().map(|word| (*word).to_owned()));
        words.extend(kind.command(home.path()));
        let terminal = started(database, &words);
        Self {
            kind,
            home,
            database,
            words,
            terminal,
        }
    }

    /// Asserts that the Tab key after `typed` completes the command line to `words`. Tries several times, because dlock
    /// prints no names if a busy machine delays it too long.
    #[track_caller]
    pub fn completes(&mut self, typed: &str, words: &[&str]) {
        let wanted = printed(words);
        let mut found = String::new();
        for _ in 0..ATTEMPTS {
            found = self.presses_tab(typed);
            if found == wanted {
                return;
            }
        }
        panic!("{:?}: {typed:?} becomes {found}, not {wanted}", self.kind);
    }

    /// Asserts that the Tab key after `typed` changes nothing: the command line has the same `words`.
    #[track_caller]
    pub fn keeps(&mut self, typed: &str, words: &[&str]) {
        let found = self.presses_tab(typed);
        assert_eq!(found, printed(words), "{:?}: {typed:?}", self.kind);
    }

    /// Types `typed` and the Tab key. Then prints the words of the command line instead of executing it, and returns
    /// what was printed. Returns an empty string if the shell prints nothing: if the Tab key does not complete a word that
    /// begins with a quote, the shell waits for the end of the quote. Then a new shell is started, because a busy shell may
    /// miss Ctrl-C.
    #[track_caller]
    fn presses_tab(&mut self, typed: &str) -> String {
        self.terminal.types(&format!("{typed}{TAB}{CTRL_A}"));
        self.terminal.enters("printf '[%s]' ");
        if !self.terminal.sees_within(MAX_PRINT, "[dlock]") {
            self.terminal = started(self.database, &self.words);
            return String::new();
        }
        self.terminal.prompts();
        let screen = self.terminal.screen();
        let start = screen.rfind("[dlock]").expect("the string was seen");
        let end = screen[start..].rfind(']').expect("the string was seen");
        screen[start..=start + end].to_owned()
    }

    /// Types `typed`, the Tab key and the letter `X`, and returns the time from the Tab key until the terminal shows
    /// the letter. Asserts that the last word of `typed` becomes `shown` before the letter.
    #[track_caller]
    pub fn time_of_tab(&mut self, typed: &str, shown: &str) -> Duration {
        self.terminal.types(typed);
        self.terminal.sees(typed);
        let start = Instant::now();
        self.terminal.types(&format!("{TAB}X"));
        let is_shown = self.terminal.sees_within(MAX_PRINT, "X");
        let time = start.elapsed();
        assert!(is_shown, "{:?}: no reaction to the Tab key", self.kind);
        // A completed word may be followed by a blank.
        self.terminal.types(CTRL_A);
        self.terminal.enters("printf '[%s]' ");
        self.terminal.sees("[dlock]");
        self.terminal.prompts();
        let (joined, separate) = (format!("[{shown}X]"), format!("[{shown}][X]"));
        let screen = self.terminal.screen();
        let is_as_expected = screen.contains(&joined) || screen.contains(&separate);
        assert!(is_as_expected, "{:?}: {screen}", self.kind);
        time
    }

    pub fn screen(&mut self) -> &str {
        self.terminal.screen()
    }
}

/// Starts the shell with the command `words`, and waits for its prompt.
#[track_caller]
fn started(database: &Database, words: &[String]) -> Terminal {
    let mut terminal = Terminal::with(database, words);
    // One row takes the longest line of the tests, so that the shell does not wrap it.
    terminal.becomes(200, 50);
    terminal.prompts();
    terminal
}

fn printed(words: &[&str]) -> String {
    format!("[{}]", words.join("]["))
}
