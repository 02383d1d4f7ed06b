package enginelog

import (
	"bytes"
	"path/filepath"
)

// Reader reads the log of an engine from its file, as the lines of JSON that a pod prints. It does not
// change the file.
type Reader struct {
	log   forwarder
	lines *bytes.Buffer
}

// NewReader reads the log of the engine in the folder of an instance from the beginning.
func NewReader(folder, instance string) *Reader {
	var lines bytes.Buffer
	return &Reader{forwarder{path: filepath.Join(folder, FileName), instance: instance, out: &lines, keep: true}, &lines}
}

// Next returns what was logged since the last call. The newest message is complete only when nothing
// has followed it until the next call.
func (r *Reader) Next() ([]byte, error) {
	r.lines.Reset()
	err := r.log.pass()
	return r.lines.Bytes(), err
}
