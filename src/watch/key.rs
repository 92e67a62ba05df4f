//! The keys that have a function on the screen.

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Text(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace or Ctrl-H.
    Backspace,
    /// Arrow up: one line up.
    Up,
    /// Arrow down: one line down.
    Down,
    /// Page Up or Ctrl-B: one page up.
    PageUp,
    /// Page Down or Ctrl-F: one page down.
    PageDown,
    /// Home: to the first line.
    Home,
    /// End: to the last line.
    End,
    /// Ctrl-C. While the screen is active, the terminal sends Ctrl-C as a key and not as a signal.
    Interrupt,
    /// Ctrl-Z, which the terminal also sends as a key and not as a signal.
    Suspend,
    /// Ctrl-L, which redraws the screen.
    Redraw,
    /// Ctrl-U, which clears the filter.
    Erase,
}
