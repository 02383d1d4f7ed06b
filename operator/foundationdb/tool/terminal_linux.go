package tool

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudo terminal: our end, and the device that a process reads lines from. It passes
// lines on as they are, and repeats nothing.
func openTerminal() (ours, device *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("a pseudo terminal: %w", err)
	}
	ours = os.NewFile(uintptr(fd), "/dev/ptmx") // not blocking, so that it has deadlines
	defer func() {
		if err != nil {
			err = fmt.Errorf("a pseudo terminal: %w", err)
			ours.Close()
		}
	}()
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil { // unlocks it
		return nil, nil, err
	}
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, nil, err
	}
	modes.Lflag = unix.ICANON // lines, and neither echo nor signals
	modes.Iflag = 0           // no byte has a meaning but the line feed
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, modes); err != nil {
		return nil, nil, err
	}
	device, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	return ours, device, nil
}
