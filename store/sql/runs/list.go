package runs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// List implements runstore.Lister. A cursor is a position in the order of creation.
func (s *Store) List(ctx context.Context, q runstore.Query) ([]*runtype.Run, string, error) {
	sql, w, err := s.listSQL(q)
	if err != nil {
		return nil, "", err
	}
	limit := q.PageSize()
	var list []*runtype.Run
	var last int64
	more := false
	err = s.db.Read(ctx, func(x db.Session) error {
		list, more = nil, false
		return x.Query(sql, w.Args, func(r db.Row) error {
			if len(list) == limit {
				more = true
				return nil
			}
			row := s.readRow(r, false)
			list, last = append(list, row.listed()), row.Handle.Key
			return nil
		})
	})
	if err != nil || !more {
		return list, "", err
	}
	return list, strconv.FormatInt(last, 10), nil
}

// Count implements runstore.Lister.
func (s *Store) Count(ctx context.Context, q runstore.Query) ([]runstore.RunCount, error) {
	w := &db.Where{}
	from := "run AS r"
	if s.filter(w, q) {
		from = "run_label AS c JOIN run AS r ON " + s.texts.Key + " = c.run"
	}
	sql := fmt.Sprintf("SELECT r.flow, r.phase, CASE WHEN r.phase = %d THEN r.fault END, count(*) FROM %s%s GROUP BY 1, 2, 3", paused, from, w)
	var counts []runstore.RunCount
	err := s.db.Read(ctx, func(x db.Session) error {
		counts = []runstore.RunCount{}
		return x.Query(sql, w.Args, func(r db.Row) error {
			counts = append(counts, runstore.RunCount{Flow: r.Text(0), Phase: codec.PhaseOf(r.Int(1)), Fault: fault.Code(r.Text(2)), Runs: int(r.Int(3))})
			return nil
		})
	})
	runstore.SortCounts(counts)
	return counts, err
}

var paused = codec.PhaseNumber(runtype.Paused)

// filter adds the conditions of a query. It reports whether they read c, the index of labels.
func (s *Store) filter(w *db.Where, q runstore.Query) (byLabel bool) {
	for _, equal := range []struct{ column, value string }{{"flow", q.Flow}, {"hash", q.Hash}, {"parent", q.Parent}} {
		if equal.value != "" {
			w.And("r."+equal.column+" = ?", equal.value)
		}
	}
	switch subjects := q.Subjects(); len(subjects) {
	case 0:
	case 1:
		w.And("r.subject = ?", q.Subject)
	default:
		w.And(db.In(w, "r.subject", subjects))
	}
	if len(q.Phases) > 0 {
		var numbers []int64
		for _, p := range q.Phases {
			numbers = append(numbers, codec.PhaseNumber(p))
		}
		w.And(db.In(w, "r.phase", numbers))
	}
	if q.Active {
		w.And(s.texts.Active)
	}
	if q.Prefix != "" {
		w.And("r.id >= ? AND r.id < ?", q.Prefix, q.Prefix+string(unicode.MaxRune)) // both databases compare bytes
	}
	if len(q.IDs) > 0 {
		w.And(db.In(w, "r.id", q.IDs))
	}
	if q.Fault != "" {
		w.And("r.fault = ? AND r.phase = "+strconv.FormatInt(paused, 10), string(q.Fault))
	}
	if !q.Since.IsZero() {
		w.And("r.created >= ?", db.Nanos(q.Since))
	}
	if !q.Until.IsZero() {
		w.And("r.created <= ?", db.Nanos(q.Until))
	}
	if q.Text != "" {
		textCondition(w, q.Text, s.texts.Key)
	}
	first, others := firstLabel(q.Labels)
	if first != nil {
		w.And("c.key = ? AND c.value = ?", first.Key, first.Value)
	}
	for _, t := range others {
		labelCondition(w, t, s.texts.Key)
	}
	return first != nil
}

// listSQL returns the statement of a list.
func (s *Store) listSQL(q runstore.Query) (string, *db.Where, error) {
	w := &db.Where{}
	from, key := s.texts.From, s.texts.Key
	if s.filter(w, q) {
		from, key = s.texts.Labelled, "c.run"
	}
	order, behind := key+" DESC", key+" < ?"
	if q.OldestFirst {
		order, behind = key, key+" > ?"
	}
	if q.Cursor != "" {
		at, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil || at < 0 {
			return "", nil, runtype.InputInvalid.Errorf("cursor %q is not from an earlier answer", q.Cursor)
		}
		w.And(behind, at)
	}
	// A number lets PostgreSQL plan for a short answer. Powers of two make few distinct statements.
	limit := 1
	for limit <= q.PageSize() {
		limit *= 2
	}
	return s.columns + from + w.String() + " ORDER BY " + order + " LIMIT " + strconv.Itoa(limit), w, nil
}

// listed returns the run as List shows it: with its current step only, and as Paused if it
// cannot be read.
func (row *Row) listed() *runtype.Run {
	r := row.Run
	if row.Damage != nil {
		r.Phase = runtype.Paused
		r.Fault = &runtype.Fault{Code: runstore.StoreCorrupt.Code, Message: row.Damage.Error()}
		return r
	}
	r.Restore(row.open)
	if current := r.Current(); current != nil {
		r.Restore([]*runtype.StepRecord{current})
	} else {
		r.Restore(nil)
	}
	return r
}

// firstLabel returns the term whose index a list reads: the first term that names a
// value. nil: no term does, and the list reads every run.
func firstLabel(terms []runstore.LabelTerm) (first *runstore.LabelTerm, others []runstore.LabelTerm) {
	at := slices.IndexFunc(terms, func(t runstore.LabelTerm) bool { return !t.Any && !t.Not })
	if at < 0 {
		return nil, terms
	}
	return &terms[at], slices.Delete(slices.Clone(terms), at, at+1)
}

// textCondition is Query.Text. Both databases make only A to Z small.
func textCondition(w *db.Where, text, key string) {
	escaped := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(runstore.Lower(text))
	like := " LIKE " + w.Arg("%"+escaped+"%") + ` ESCAPE '\'`
	w.And("(lower(r.id)" + like + " OR lower(r.flow)" + like + " OR lower(r.subject)" + like +
		" OR EXISTS (SELECT 1 FROM run_label l WHERE l.run = " + key + " AND lower(l.key || '=' || l.value)" + like + "))")
}

func labelCondition(w *db.Where, t runstore.LabelTerm, key string) {
	exists := "EXISTS (SELECT 1 FROM run_label l WHERE l.run = " + key + " AND l.key = ?"
	if t.Not {
		exists = "NOT " + exists
	}
	if t.Any {
		w.And(exists+")", t.Key)
	} else {
		w.And(exists+" AND l.value = ?)", t.Key, t.Value)
	}
}
