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
    /// Backspace.
    Backspace,
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// To the first line.
    Home,
    /// To the last line.
    End,
    /// Ctrl-C, which is a key and not a signal while the screen is active.
    Interrupt,
    /// Ctrl-Z, which is also a key and not a signal.
    Suspend,
    /// Ctrl-L.
    Redraw,
    /// Ctrl-U.
    Erase,
}
