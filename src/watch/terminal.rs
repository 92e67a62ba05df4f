//! The terminal on which `status --watch` draws its screen. In the module `watch`, only this file moves the cursor,
//! draws colours, and changes the mode of the terminal.
//!
//! While a [`Screen`] is active, the terminal is in raw mode and shows its alternate screen. The terminal is restored
//! when the screen is dropped or suspended, and after a panic in any thread except the database thread. Each change of
//! the screen is one write.

pub mod keyboard;

use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, window_size,
};

use super::frame::{Frame, Size};
use crate::report::line::StyledLine;
use crate::report::style::{Colors, Style};
use crate::store::mysql::worker::THREAD_NAME;

/// The size that dlock assumes if the terminal does not report its size, as on a serial line.
const DEFAULT_SIZE: Size = Size {
    columns: 80,
    rows: 24,
};

/// The screen, which is active until this value is dropped.
#[derive(Debug)]
pub struct Screen {
    colors: Colors,
    /// The frame on the screen. None if the screen was cleared or its content is not known.
    drawn: Option<Frame>,
    /// True while the screen is active. Shared with the panic hook.
    is_up: Arc<AtomicBool>,
}

impl Screen {
    /// Switches the terminal to raw mode and to its alternate screen.
    ///
    /// # Errors
    /// Fails if stdout is not a terminal, or if the terminal has hung up.
    pub fn enter(colors: Colors) -> io::Result<Self> {
        let is_up = Arc::new(AtomicBool::new(false));
        let guard = Arc::clone(&is_up);
        let before = panic::take_hook();
        // A panic message on the alternate screen would be lost, so the hook restores the terminal first. A panic in
        // the database thread only makes a request fail, and the screen shows the failure.
        panic::set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(THREAD_NAME) {
                restore(&guard);
            }
            before(panic);
        }));
        let mut screen = Self {
            colors,
            drawn: None,
            is_up,
        };
        screen.activate()?;
        Ok(screen)
    }

    fn activate(&mut self) -> io::Result<()> {
        // If the process is in the background, this call stops the process before it writes to the screen of the
        // foreground job.
        enable_raw_mode()?;
        self.is_up.store(true, Ordering::SeqCst);
        let mut bytes = Vec::new();
        queue!(bytes, EnterAlternateScreen)?;
        write(&bytes)?;
        self.redraw()
    }

    /// Restores the terminal, calls `pause`, and activates the screen again.
    ///
    /// # Errors
    /// Fails if the terminal has hung up.
    pub fn suspend(&mut self, pause: impl FnOnce()) -> io::Result<()> {
        restore(&self.is_up);
        pause();
        self.activate()
    }

    /// Sets raw mode again after the process is stopped and continued, because the shell may have changed the mode.
    ///
    /// # Errors
    /// Fails if the terminal has hung up.
    pub fn resume(&mut self) -> io::Result<()> {
        // crossterm does nothing if it has already enabled raw mode, so raw mode is disabled first.
        disable_raw_mode()?;
        enable_raw_mode()?;
        self.redraw()
    }

    /// Clears the screen, so that the next [`Screen::draw`] writes all lines.
    ///
    /// # Errors
    /// Fails if the terminal has hung up.
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

    /// Returns the current size of the terminal.
    #[must_use]
    pub fn size(&self) -> Size {
        match window_size() {
            Ok(size) if size.rows > 0 && size.columns > 0 => Size {
                columns: size.columns.into(),
                rows: size.rows.into(),
            },
            _ => DEFAULT_SIZE,
        }
    }

    /// Draws `frame`. Writes only the lines that have changed since the previous frame.
    ///
    /// # Errors
    /// Fails if the terminal has hung up, or if a panic in another thread has restored the terminal.
    pub fn draw(&mut self, frame: Frame) -> io::Result<()> {
        if !self.is_up.load(Ordering::SeqCst) {
            return Err(io::Error::other("it was restored after a panic"));
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

    fn put(
        &self,
        bytes: &mut Vec<u8>,
        row: usize,
        line: &StyledLine,
        width: usize,
    ) -> io::Result<()> {
        let at = |column| MoveTo(coordinate(column), coordinate(row));
        queue!(bytes, at(0), Clear(ClearType::CurrentLine))?;
        if line.is_marked {
            // The whole line is shown in reverse, including the gaps between the cells.
            queue!(
                bytes,
                SetAttribute(Attribute::Reverse),
                Print(" ".repeat(width))
            )?;
        }
        for cell in &line.cells {
            queue!(bytes, at(cell.column))?;
            if !line.is_marked {
                queue!(bytes, Print(cell.paint.sequence(self.colors)))?;
            }
            queue!(bytes, Print(&cell.text))?;
            if !line.is_marked && cell.paint != Style::Plain {
                queue!(bytes, SetAttribute(Attribute::Reset))?;
            }
        }
        if line.is_marked {
            queue!(bytes, SetAttribute(Attribute::Reset))?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore(&self.is_up);
    }
}

/// Restores the terminal if the screen is active. Ignores errors, because an error means that the terminal has hung up.
fn restore(is_up: &AtomicBool) {
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

fn coordinate(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}
