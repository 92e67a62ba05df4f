//! The keys that mean something here.

/// One key as it was pressed.
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
    /// To the first.
    Home,
    /// To the last.
    End,
    /// Ctrl-C, which is a key and no signal while the screen is up.
    Interrupt,
    /// Ctrl-Z, the same.
    Suspend,
    /// Ctrl-L.
    Redraw,
    /// Ctrl-U.
    Erase,
}
