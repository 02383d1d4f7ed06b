package postgres

import (
	"bytes"
	"path/filepath"
)

// EngineLog reads the log of an engine from its file, as the lines of JSON that a pod prints. It does not
// change the file.
type EngineLog struct {
	forwarder logForwarder
	lines     *bytes.Buffer
}

// NewEngineLog reads the log of the engine in the folder of an instance from the beginning.
func NewEngineLog(folder, instance string) *EngineLog {
	var lines bytes.Buffer
	return &EngineLog{logForwarder{path: filepath.Join(folder, engineLog), instance: instance, out: &lines, keep: true}, &lines}
}

// Next returns what was logged since the last call. The newest message is complete only when nothing
// has followed it until the next call.
func (l *EngineLog) Next() ([]byte, error) {
	l.lines.Reset()
	err := l.forwarder.pass()
	return l.lines.Bytes(), err
}
