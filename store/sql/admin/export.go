package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/objects"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// dump is one line of an export: a definition, an object, the number of the newest
// change of objects, a lock, a table row, a run, or the damage of a record that cannot
// be read. The first line holds the format, the last line the number of lines before it.
type dump struct {
	Format     int                  `json:"pawl,omitempty"` // first line only
	Definition *runstore.Definition `json:"definition,omitempty"`
	Object     json.RawMessage      `json:"object,omitempty"`
	Newest     int64                `json:"newest,omitempty"`
	Lock       string               `json:"lock,omitempty"`
	Value      []byte               `json:"value,omitempty"` // of the lock
	Table      string               `json:"table,omitempty"`
	Row        map[string]cell      `json:"row,omitempty"` // of the table
	runs.Dump
	Damaged *Damage `json:"damaged,omitempty"`
	End     int     `json:"end,omitempty"` // last line only
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
			return runtype.InputInvalid.Errorf("the export is empty")
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return runtype.InputInvalid.Errorf("the export is cut off in or behind line %d: its end is missing", n-1)
		case err != nil:
			return runtype.InputInvalid.Errorf("line %d of the export: %w", n, err)
		case n == 1 && line.Format != exportFormat:
			return runtype.InputInvalid.Errorf("this is not an export of this version: its first line says format %d, not %d", line.Format, exportFormat)
		case line.End > 0:
			if line.End != n-1 {
				return runtype.InputInvalid.Errorf("lines of the export are missing: it has %d, and was written with %d", n-1, line.End)
			}
			if err := in.Decode(&line); !errors.Is(err, io.EOF) {
				return runtype.InputInvalid.Errorf("the export continues after its end, in line %d", n+1)
			}
			return nil
		}
		if err := each(line); err != nil {
			return err
		}
	}
}

// Export writes one snapshot of the store as JSON lines, the same for both databases,
// except for data that a restored store does not need: older changes of objects, and
// answers to repeated requests.
func (a *Admin) Export(ctx context.Context, to io.Writer) error {
	out, err := newExporter(to)
	if err != nil {
		return err
	}
	err = a.db.Inspect(ctx, func(x db.Session) error {
		err := a.runs.EachDefinition(x, func(d runstore.Definition) error { return out.write(dump{Definition: &d}) })
		if err != nil && !a.db.IsDamage(err) {
			return err
		}
		if err := exportObjects(x, out); err != nil && !a.db.IsDamage(err) {
			return err
		}
		if err := a.exportTables(x, out); err != nil {
			return err
		}
		return a.runs.EachRun(x, a.db.IsDamage, func(id string, d runs.Dump, damage error) error {
			line := dump{Dump: d}
			if damage != nil {
				line = dump{Damaged: &Damage{Run: id, What: fault.Message(damage)}}
			}
			if err := out.write(line); err != nil {
				return err
			}
			return ctx.Err()
		})
	})
	if err != nil {
		return err
	}
	return out.end()
}

// exportObjects writes the objects, the number of their newest change, and the locks.
func exportObjects(x db.Session, out *exporter) error {
	err := x.Query("SELECT data, kind, namespace, name FROM object ORDER BY kind, namespace, name", nil, func(r db.Row) error {
		line := dump{Object: r.Bytes(0)}
		if _, err := objects.DecodeObject(line.Object); err != nil {
			ref := control.Ref{Kind: r.Text(1), Namespace: r.Text(2), Name: r.Text(3)}
			line = dump{Damaged: &Damage{What: "object " + ref.String() + ": " + fault.Message(err)}}
		}
		return out.write(line)
	})
	if err != nil {
		return err
	}
	err = x.Query("SELECT newest FROM feed", nil, func(r db.Row) error { return out.write(dump{Newest: r.Int(0)}) })
	if err != nil {
		return err
	}
	return x.Query("SELECT name, value FROM lock ORDER BY name", nil, func(r db.Row) error {
		return out.write(dump{Lock: r.Text(0), Value: r.Bytes(1)})
	})
}

// Restore reads an export into an empty store: all of it or nothing. Runs with an owner
// become due at once. It skips the lines of damaged runs.
func (a *Admin) Restore(ctx context.Context, from io.Reader) error {
	return a.db.Rewrite(ctx, func(x db.Rewriter) error {
		if filled, err := db.FirstInt(x, isFilledSQL, nil); err != nil {
			return err
		} else if filled != 0 {
			return runtype.InputInvalid.Errorf("the store holds runs, objects or clusters already: restore into a new one")
		}
		restoreRun, err := a.runs.Restorer(x)
		if err != nil {
			return err
		}
		err = readExport(from, func(line dump) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			switch {
			case line.Definition != nil:
				return x.Execute([]db.Statement{a.runs.RestoreDefinition(*line.Definition)})
			case line.Run != nil:
				return x.Execute(restoreRun(line.Dump))
			case line.Table != "":
				return restoreRow(x, line)
			case line.Object != nil, line.Newest > 0, line.Lock != "":
				return restoreObject(x, line)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return advanceNumbers(x)
	})
}

// restoreObject writes an object or a lock. Numbers of changes continue after the newest
// one, and readers of the feed must list again.
func restoreObject(x db.Rewriter, line dump) error {
	if line.Lock != "" {
		return x.Execute([]db.Statement{{SQL: "INSERT INTO lock (name, value) VALUES ($1, $2)", Args: []any{line.Lock, db.NonNil(line.Value)}}})
	}
	newest := line.Newest
	var list []db.Statement
	if line.Object != nil {
		o, err := objects.DecodeObject(line.Object)
		if err != nil {
			return err
		}
		newest = o.Revision
		list = append(list, db.Statement{SQL: "INSERT INTO object (kind, namespace, name, revision, data) VALUES ($1, $2, $3, $4, $5)",
			Args: []any{o.Kind, o.Namespace, o.Name, o.Revision, []byte(line.Object)}})
	}
	return x.Execute(append(list, db.Statement{SQL: `UPDATE feed SET newest = CASE WHEN newest > $1 THEN newest ELSE $1 END, floor = CASE WHEN floor > $1 THEN floor ELSE $1 END`,
		Args: []any{newest}}))
}
