//go:build unix && !linux

package tool

import (
	"errors"
	"os"
)

// openTerminal fails: transactions need Linux.
func openTerminal() (ours, device *os.File, err error) {
	return nil, nil, errors.New("a pseudo terminal: transactions through fdbcli need Linux")
}
