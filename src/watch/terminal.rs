//! The terminal: the only file that moves a cursor, colours a text or changes a terminal's mode.
//!
//! While a [`Screen`] is up, the terminal is in raw mode on its alternate screen; whatever ends the
//! screen, a panic too, gives the terminal back as it was. Each change is one write.

pub mod keyboard;

use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Color, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, window_size,
};
use crossterm::{queue, style};

use super::frame::{Frame, Line, Paint, Size};
use crate::database::THREAD_NAME;

/// What a terminal is taken to be that does not know its size, as over a serial line.
const USUAL: Size = Size {
    columns: 80,
    rows: 24,
};

/// Whether texts are coloured; bold and reversed they are in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// They are.
    Shown,
    /// They are not.
    Left,
}

/// The screen, which is up until this is dropped.
#[derive(Debug)]
pub struct Screen {
    colors: Colors,
    /// What is on it; none if that is not known.
    drawn: Option<Frame>,
    is_up: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// When stdout is no terminal, or is hung up.
    pub fn enter(colors: Colors) -> io::Result<Self> {
        // The library heeds NO_COLOR by itself; here that is for one place to decide, see `paint`.
        style::force_color_output(true);
        let is_up = Arc::new(AtomicBool::new(false));
        let guard = Arc::clone(&is_up);
        let before = panic::take_hook();
        // What a panic has to say would be on the screen that goes away. The driver's panics are failed
        // questions, of which the screen itself tells.
        panic::set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(THREAD_NAME) {
                leave(&guard);
            }
            before(panic);
        }));
        let mut screen = Self {
            colors,
            drawn: None,
            is_up,
        };
        screen.begin()?;
        Ok(screen)
    }

    fn begin(&mut self) -> io::Result<()> {
        // In the background this stops us before a byte is written to another's screen.
        enable_raw_mode()?;
        self.is_up.store(true, Ordering::SeqCst);
        let mut bytes = Vec::new();
        queue!(bytes, EnterAlternateScreen)?;
        write(&bytes)?;
        self.redraw()
    }

    /// Gives the terminal back, lets `pause` happen, and takes it over again.
    ///
    /// # Errors
    /// When the terminal is hung up.
    pub fn suspend(&mut self, pause: impl FnOnce()) -> io::Result<()> {
        leave(&self.is_up);
        pause();
        self.begin()
    }

    /// Sets the terminal's mode anew, after somebody has stopped us and the shell has changed it.
    ///
    /// # Errors
    /// When the terminal is hung up.
    pub fn resume(&mut self) -> io::Result<()> {
        // The library sets no mode that it has set before.
        disable_raw_mode()?;
        enable_raw_mode()?;
        self.redraw()
    }

    /// Clears the screen; the next [`Screen::draw`] writes all of it.
    ///
    /// # Errors
    /// When the terminal is hung up.
    pub fn redraw(&mut self) -> io::Result<()> {
        self.drawn = None;
        let mut bytes = Vec::new();
        queue!(
            bytes,
            Hide,
            DisableLineWrap,
            SetAttribute(Attribute::Reset),
            Clear(ClearType::All)
        )?;
        write(&bytes)
    }

    /// The terminal's size at this moment.
    #[must_use]
    pub fn size(&self) -> Size {
        match window_size() {
            Ok(size) if size.rows > 0 && size.columns > 0 => Size {
                columns: size.columns.into(),
                rows: size.rows.into(),
            },
            _ => USUAL,
        }
    }

    /// Shows `frame`: writes the lines that are not there yet.
    ///
    /// # Errors
    /// When the terminal is hung up, or was given back because another thread has panicked.
    pub fn draw(&mut self, frame: Frame) -> io::Result<()> {
        if !self.is_up.load(Ordering::SeqCst) {
            return Err(io::Error::other("it was given back"));
        }
        let before = self.drawn.as_ref().map_or(&[][..], |frame| &frame.lines);
        let mut bytes = Vec::new();
        for (row, line) in frame.lines.iter().enumerate() {
            if before.get(row) != Some(line) {
                self.put(&mut bytes, row, line, frame.columns)?;
            }
        }
        if !bytes.is_empty() {
            write(&bytes)?;
        }
        self.drawn = Some(frame);
        Ok(())
    }

    fn put(&self, bytes: &mut Vec<u8>, row: usize, line: &Line, width: usize) -> io::Result<()> {
        let at = |column| MoveTo(number(column), number(row));
        queue!(bytes, at(0), Clear(ClearType::CurrentLine))?;
        if line.is_marked {
            // From edge to edge: what is between the cells too.
            queue!(
                bytes,
                SetAttribute(Attribute::Reverse),
                Print(" ".repeat(width))
            )?;
        }
        for cell in &line.cells {
            queue!(bytes, at(cell.column))?;
            if !line.is_marked {
                self.paint(bytes, cell.paint)?;
            }
            queue!(bytes, Print(&cell.text))?;
            if !line.is_marked && cell.paint != Paint::Plain {
                queue!(bytes, SetAttribute(Attribute::Reset))?;
            }
        }
        if line.is_marked {
            queue!(bytes, SetAttribute(Attribute::Reset))?;
        }
        Ok(())
    }

    fn paint(&self, bytes: &mut Vec<u8>, paint: Paint) -> io::Result<()> {
        // The terminal's own eight colours, which people have set to what they can read.
        let color = match paint {
            Paint::Plain | Paint::Strong | Paint::Faint => None,
            Paint::Good => Some(Color::DarkGreen),
            Paint::Doubtful => Some(Color::DarkYellow),
            Paint::Bad => Some(Color::DarkRed),
        };
        match (paint, color.filter(|_| self.colors == Colors::Shown)) {
            (Paint::Strong | Paint::Bad, None) => {
                queue!(bytes, SetAttribute(Attribute::Bold))
            }
            (Paint::Faint, None) => queue!(bytes, SetAttribute(Attribute::Dim)),
            (Paint::Bad, Some(color)) => queue!(
                bytes,
                SetAttribute(Attribute::Bold),
                SetForegroundColor(color)
            ),
            (_, Some(color)) => queue!(bytes, SetForegroundColor(color)),
            (_, None) => Ok(()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave(&self.is_up);
    }
}

/// Gives the terminal back, if it is taken. What cannot be written is not worth a word: the terminal
/// is gone.
fn leave(is_up: &AtomicBool) {
    if is_up.swap(false, Ordering::SeqCst) {
        let mut bytes = Vec::new();
        let _ = queue!(
            bytes,
            SetAttribute(Attribute::Reset),
            EnableLineWrap,
            LeaveAlternateScreen,
            Show
        );
        let _ = write(&bytes);
        let _ = disable_raw_mode();
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

fn number(place: usize) -> u16 {
    u16::try_from(place).unwrap_or(u16::MAX)
}
