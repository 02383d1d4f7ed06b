package storetest

import (
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// chunk returns a chunk of one line with so many bytes.
func chunk(step string, bytes int, stream runstore.LogStream) *runstore.LogChunk {
	return &runstore.LogChunk{Step: step, Round: 1, Attempt: 2, Bytes: int64(bytes),
		Lines: []runstore.LogLine{{At: testTime(3), Stream: stream, Text: strings.Repeat("ü", (bytes-1)/2)}}}
}

func numbers(page runstore.LogPage) (list []int64) {
	for _, c := range page.Chunks {
		list = append(list, c.Number)
	}
	return list
}

func (x suite) logs(id string, q runstore.LogQuery) runstore.LogPage {
	x.Helper()
	page, err := optional[runstore.Logs](x).ReadLogs(x.Context(), id, q)
	if err != nil {
		x.Fatal(err)
	}
	return page
}

func (x suite) writeLogs(writes ...*runstore.LogWrite) {
	x.Helper()
	if err := optional[runstore.Logs](x).WriteLogs(x.Context(), writes); err != nil {
		x.Fatal(err)
	}
}

// fitsRun reports whether the lines that a run keeps after a removal cost what they may, as exactly as a store counts.
func fitsRun(cost int64) bool {
	return cost <= runstore.KeptRunLog*11/10 && cost >= runstore.KeptRunLog*9/10
}

func testLogs(t *testing.T, h Harness) {
	t.Run("ReadAndWrite", func(t *testing.T) {
		x := open(t, h)
		store := optional[runstore.Logs](x)
		a, b := x.createClaimed("w"), x.createClaimed("w")
		_, err := store.ReadLogs(t.Context(), "nobody", runstore.LogQuery{})
		x.wantError("logs of an unknown run", err, runstore.ErrNotFound)
		x.wantEqual("a run without logs", x.logs(a.ID, runstore.LogQuery{}), runstore.LogPage{})

		one, other := chunk("Build", 11, runstore.LogOut), chunk("Test", 21, runstore.LogErr)
		other.Undo, other.LeftOut = true, 77
		two := chunk("Build", 31, runstore.LogLogger)
		x.writeLogs(&runstore.LogWrite{Run: a.ID, Chunks: []*runstore.LogChunk{one, other}}, &runstore.LogWrite{Run: "nobody", Chunks: []*runstore.LogChunk{chunk("x", 3, "")}},
			&runstore.LogWrite{Run: b.ID, Chunks: []*runstore.LogChunk{chunk("Else", 5, runstore.LogOut)}})
		x.writeLogs(&runstore.LogWrite{Run: a.ID, Chunks: []*runstore.LogChunk{two}})
		x.wantEqual("numbers", []int64{one.Number, other.Number, two.Number}, []int64{1, 2, 3})
		x.wantEqual("chunks", x.logs(a.ID, runstore.LogQuery{}), runstore.LogPage{Chunks: []runstore.LogChunk{*one, *other, *two}})
		for _, c := range []struct {
			what string
			q    runstore.LogQuery
			want []int64
		}{
			{"after", runstore.LogQuery{After: 1}, []int64{2, 3}},
			{"the first two", runstore.LogQuery{Limit: 2}, []int64{1, 2}},
			{"the newest two", runstore.LogQuery{Limit: 2, Newest: true}, []int64{2, 3}},
			{"the newest before", runstore.LogQuery{Before: 3, Limit: 1, Newest: true}, []int64{2}},
			{"none", runstore.LogQuery{After: 3}, nil},
		} {
			x.wantEqual(c.what, numbers(x.logs(a.ID, c.q)), c.want)
		}
		if h.Reopen != nil {
			x.Store = h.Reopen(t, x.Store)
			x.wantEqual("after a crash", x.logs(a.ID, runstore.LogQuery{}), runstore.LogPage{Chunks: []runstore.LogChunk{*one, *other, *two}})
		}
	})
	t.Run("Removed", func(t *testing.T) {
		x := open(t, h)
		a := x.createClaimed("w")
		for range 5 {
			x.writeLogs(&runstore.LogWrite{Run: a.ID, Chunks: []*runstore.LogChunk{chunk("Build", 11, runstore.LogOut)}})
		}
		x.writeLogs(&runstore.LogWrite{Run: a.ID, Chunks: []*runstore.LogChunk{chunk("Build", 11, runstore.LogOut)}, Remove: []int64{2}, Into: 3})
		x.writeLogs(&runstore.LogWrite{Run: a.ID, Remove: []int64{3, 4, 99}, Into: 5})
		page := x.logs(a.ID, runstore.LogQuery{})
		x.wantEqual("kept", numbers(page), []int64{1, 5, 6})
		x.wantEqual("bytes before chunk 5", page.Chunks[1].LeftOut, int64(33))
		x.wantEqual("bytes of the run that are not kept", page.LeftOut, int64(0))
	})
	t.Run("Bounded", func(t *testing.T) {
		x := open(t, h)
		a, b := x.createClaimed("w"), x.createClaimed("w")
		const size = 16<<10 + 1
		written := int64(0)
		x.writeLogs(&runstore.LogWrite{Run: b.ID, Chunks: []*runstore.LogChunk{chunk("Build", size, runstore.LogOut)}})
		for range runstore.MaxRunLog/size/16 + 1 {
			w := &runstore.LogWrite{Run: a.ID}
			for range 16 {
				w.Chunks = append(w.Chunks, chunk("Build", size, runstore.LogOut))
				written += size
			}
			x.writeLogs(w)
		}
		page := x.logs(a.ID, runstore.LogQuery{Limit: 10_000})
		kept, cost := int64(0), int64(0)
		for i, c := range page.Chunks {
			kept += c.Bytes
			cost += c.Cost()
			x.wantEqual("numbers without gaps", c.Number, page.Chunks[0].Number+int64(i))
		}
		if !fitsRun(cost) || page.LeftOut != written-kept {
			t.Errorf("%d bytes are kept of %d, and %d are said to be left out", kept, written, page.LeftOut)
		}
		x.wantEqual("another run", numbers(x.logs(b.ID, runstore.LogQuery{})), []int64{1})
	})
	t.Run("EmptyLines", func(t *testing.T) { // what is stored beside their text is bounded
		x := open(t, h)
		a := x.createClaimed("w")
		const lines, chunks = 500, 200
		empty := make([]runstore.LogLine, lines)
		for i := range empty {
			empty[i] = runstore.LogLine{At: testTime(3).Add(123456789), Stream: runstore.LogOut}
		}
		w := &runstore.LogWrite{Run: a.ID}
		for range chunks {
			w.Chunks = append(w.Chunks, &runstore.LogChunk{Step: "Build", Attempt: 1, Bytes: lines, Lines: empty})
		}
		x.writeLogs(w)
		page := x.logs(a.ID, runstore.LogQuery{Limit: 10_000})
		cost, kept := int64(0), int64(0)
		for _, c := range page.Chunks {
			cost, kept = cost+c.Cost(), kept+c.Bytes
		}
		if !fitsRun(cost) || kept+page.LeftOut != lines*chunks {
			t.Errorf("%d lines are kept, which cost %d; %d are said to be left out", kept, cost, page.LeftOut)
		}
	})
	t.Run("ManyRemoved", func(t *testing.T) { // more than a statement of any database has parameters
		x := open(t, h)
		a := x.createClaimed("w")
		w := &runstore.LogWrite{Run: a.ID}
		for range 4 {
			w.Chunks = append(w.Chunks, chunk("Build", 11, runstore.LogOut))
		}
		x.writeLogs(w)
		remove := &runstore.LogWrite{Run: a.ID, Remove: []int64{1}, Into: 4}
		for n := range int64(70_000) {
			remove.Remove = append(remove.Remove, n+100)
		}
		remove.Remove = append(remove.Remove, 3)
		x.writeLogs(remove)
		page := x.logs(a.ID, runstore.LogQuery{})
		x.wantEqual("kept", numbers(page), []int64{2, 4})
		x.wantEqual("bytes before chunk 4", page.Chunks[1].LeftOut, int64(22))
	})
	t.Run("Order", func(t *testing.T) { // a reader that goes on behind the newest chunk misses none of several writers
		x := open(t, h)
		store := optional[runstore.Logs](x)
		a := x.createClaimed("w")
		var writers sync.WaitGroup
		const each = 20
		for range 3 {
			writers.Go(func() {
				for range each {
					if err := store.WriteLogs(t.Context(), []*runstore.LogWrite{{Run: a.ID, Chunks: []*runstore.LogChunk{chunk("Build", 11, runstore.LogOut)}}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		var seen []int64
		x.waitUntil("all chunks", func() bool {
			after := int64(0)
			if len(seen) > 0 {
				after = seen[len(seen)-1]
			}
			seen = append(seen, numbers(x.logs(a.ID, runstore.LogQuery{After: after}))...)
			return len(seen) >= 3*each || t.Failed()
		})
		writers.Wait()
		for i, n := range seen {
			if n != int64(i+1) {
				t.Fatalf("chunk %d was read as number %d", n, i+1)
			}
		}
	})
	t.Run("Retention", func(t *testing.T) {
		x := open(t, h)
		a, b := x.createClaimed("w"), x.createClaimed("w")
		for _, run := range []*runtype.Run{a, b} {
			x.writeLogs(&runstore.LogWrite{Run: run.ID, Chunks: []*runstore.LogChunk{chunk("Build", 11, runstore.LogOut)}})
			x.endRun(run)
		}
		if err := optional[runstore.Retainer](x).Remove(t.Context(), []string{a.ID}); err != nil {
			t.Fatal(err)
		}
		_, err := optional[runstore.Logs](x).ReadLogs(t.Context(), a.ID, runstore.LogQuery{})
		x.wantError("logs of a removed run", err, runstore.ErrNotFound)
		x.wantEqual("logs of a kept run", numbers(x.logs(b.ID, runstore.LogQuery{})), []int64{1})
	})
	t.Run("Full", func(t *testing.T) {
		if h.DiskFull == nil {
			t.Skip("a full disk cannot be made")
		}
		x := open(t, h)
		store := optional[runstore.Logs](x)
		a := x.createClaimed("w")
		heal := h.DiskFull(t, x.Store)
		large := &runstore.LogWrite{Run: a.ID}
		for range 32 {
			large.Chunks = append(large.Chunks, chunk("Build", 16<<10, runstore.LogOut))
		}
		err := store.WriteLogs(t.Context(), []*runstore.LogWrite{large})
		x.wantCode("a full disk", err, runstore.StoreFull)
		heal()
		x.writeLogs(&runstore.LogWrite{Run: a.ID, Chunks: []*runstore.LogChunk{chunk("Build", 11, runstore.LogOut)}})
		x.wantEqual("after that", numbers(x.logs(a.ID, runstore.LogQuery{})), []int64{1})
	})
}
