// Package dlock is a lock that `dlock hold` holds for this program, at most until its end.
// It needs Linux, and dlock in PATH.
//
//	lock := dlock.New("report", "--ttl=6s")
//	err := lock.Lock()
//	go func() { <-lock.Lost; stop() }()
//	for lock.Valid() { workForAMoment(lock.Token) }
//	err = lock.Unlock()
package dlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// ErrLost says that the lock was lost before the server confirmed its release.
var ErrLost = errors.New("the lock was lost")

// Lock is used by one goroutine. Token and Lost belong to the latest grant. A loss closes Lost.
type Lock struct {
	Token   uint64
	Lost    chan struct{}
	command []string
	stopAt  *atomic.Int64 // 0 after the loss and after Unlock
	stdin   io.Closer
	ended   chan bool // true if the server has confirmed the release
}

// New returns a lock with this name and with further options of dlock hold.
func New(name string, options ...string) *Lock {
	return &Lock{command: append([]string{"hold", name, "--json"}, options...), stopAt: new(atomic.Int64)}
}

// Lock waits until the lock is held.
func (l *Lock) Lock() error {
	_, err := l.start("forever")
	return err
}

// TryLock returns false if others held the lock for this time.
func (l *Lock) TryLock(wait time.Duration) (bool, error) {
	return l.start(fmt.Sprintf("%dms", wait.Milliseconds()))
}

// Valid returns true if the lock is held. It only reads the clock, so it is right even if dlock is frozen or dead. In
// some containers, /proc/uptime is another clock.
func (l *Lock) Valid() bool {
	const clockBoottime = 7
	var now syscall.Timespec
	_, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&now)), 0)
	return err == 0 && now.Nano()/1e6 < l.stopAt.Load()
}

// Unlock releases the lock. It returns ErrLost if the lock was lost before the server confirmed its release.
func (l *Lock) Unlock() error {
	wasHeld := l.stopAt.Swap(0) > 0
	l.stdin.Close()
	if isReleased := <-l.ended; !wasHeld || !isReleased {
		return ErrLost
	}
	return nil
}

func (l *Lock) start(wait string) (bool, error) {
	cmd := exec.Command("dlock", append(l.command, "--wait", wait)...)
	cmd.Stderr = os.Stderr
	// In a process group of its own, dlock does not get the Ctrl-C that stops this program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	var e struct {
		Event  string
		Token  uint64
		StopAt int64 `json:"stop_at_ms"`
	}
	events := json.NewDecoder(stdout)
	for e.Event != "granted" {
		if events.Decode(&e) != nil {
			err := cmd.Wait()
			if cmd.ProcessState.ExitCode() == 75 && wait != "forever" {
				return false, nil
			}
			return false, fmt.Errorf("dlock: %v", err)
		}
	}
	stopAt, lost, ended := new(atomic.Int64), make(chan struct{}), make(chan bool, 1)
	stopAt.Store(e.StopAt)
	l.Token, l.Lost, l.stopAt, l.stdin, l.ended = e.Token, lost, stopAt, stdin, ended
	go func() {
		for e.Event != "released" && e.Event != "lost" && events.Decode(&e) == nil {
			if old := stopAt.Load(); e.Event == "renewed" && old > 0 {
				stopAt.CompareAndSwap(old, e.StopAt)
			}
		}
		if e.Event != "released" && stopAt.Swap(0) > 0 {
			close(lost)
		}
		err := cmd.Wait()
		ended <- e.Event == "released" && err == nil
	}()
	return true, nil
}
