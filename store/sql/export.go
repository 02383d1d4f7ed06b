package sql

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	"github.com/pawl-dev/pawl/workflow"
)

// dump is one line of an export: a definition, an object, the number of the newest
// change of objects, a lock, a table row, a run, or the damage of a record that cannot
// be read. The first line holds the format, the last line the number of lines before it.
type dump struct {
	Format     int                    `json:"pawl,omitempty"` // first line only
	Definition *workflow.Definition   `json:"definition,omitempty"`
	Object     json.RawMessage        `json:"object,omitempty"`
	Newest     int64                  `json:"newest,omitempty"`
	Lock       string                 `json:"lock,omitempty"`
	Value      []byte                 `json:"value,omitempty"` // of the lock
	Table      string                 `json:"table,omitempty"`
	Row        map[string]cell        `json:"row,omitempty"` // of the table
	Run        *workflow.Run          `json:"run,omitempty"`
	Steps      []*workflow.StepRecord `json:"steps,omitempty"`
	Signals    []workflow.Signal      `json:"signals,omitempty"`
	Seen       []string               `json:"seen,omitempty"` // ids of consumed signals
	Events     []workflow.Event       `json:"events,omitempty"`
	Damaged    *Damage                `json:"damaged,omitempty"`
	End        int                    `json:"end,omitempty"` // last line only
}

const exportFormat = 1

// exporter writes the lines of an export.
type exporter struct {
	w     *bufio.Writer
	json  *json.Encoder
	lines int
}

// newExporter begins an export. The export is complete only when end has returned nil.
func newExporter(to io.Writer) (*exporter, error) {
	e := &exporter{w: bufio.NewWriter(to)}
	e.json = json.NewEncoder(e.w)
	e.json.SetEscapeHTML(false) // specs are compared byte by byte
	err := e.write(dump{Format: exportFormat})
	return e, err
}

func (e *exporter) write(line dump) error {
	e.lines++
	return e.json.Encode(line)
}

func (e *exporter) end() error {
	if err := e.write(dump{End: e.lines}); err != nil {
		return err
	}
	return e.w.Flush()
}

// readExport calls each for every line of an export. INPUT_INVALID if the input is not
// an export or is incomplete; each may have been called for some lines by then.
func readExport(from io.Reader, each func(dump) error) error {
	in := json.NewDecoder(bufio.NewReader(from))
	for n := 1; ; n++ {
		var line dump
		err := in.Decode(&line)
		switch {
		case errors.Is(err, io.EOF) && n == 1:
			return workflow.InputInvalid.Errorf("the export is empty")
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return workflow.InputInvalid.Errorf("the export is cut off in or behind line %d: its end is missing", n-1)
		case err != nil:
			return workflow.InputInvalid.Errorf("line %d of the export: %w", n, err)
		case n == 1 && line.Format != exportFormat:
			return workflow.InputInvalid.Errorf("this is not an export of this version: its first line says format %d, not %d", line.Format, exportFormat)
		case line.End > 0:
			if line.End != n-1 {
				return workflow.InputInvalid.Errorf("lines of the export are missing: it has %d, and was written with %d", n-1, line.End)
			}
			if err := in.Decode(&line); !errors.Is(err, io.EOF) {
				return workflow.InputInvalid.Errorf("the export continues after its end, in line %d", n+1)
			}
			return nil
		}
		if err := each(line); err != nil {
			return err
		}
	}
}
