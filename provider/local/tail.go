package local

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// maxTailBytes limits how much of a log is read.
const maxTailBytes = 1 << 20

// tail returns the newest lines of a file.
func tail(path string, lines int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	from := max(0, size-maxTailBytes)
	text := make([]byte, size-from)
	n, err := f.ReadAt(text, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	text = text[:n]
	if from > 0 { // the first line is incomplete
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for ; lines > 0 && at >= 0; lines-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	return string(text[at+1:]), nil
}
