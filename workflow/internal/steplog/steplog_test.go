package steplog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/workflow/internal/redact"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore is a memory store that notes the times of writes and can fail.
type fakeStore struct {
	*runstore.Memory
	mu     sync.Mutex
	times  []time.Duration // of the calls, since begun
	begun  time.Time
	took   time.Duration // of a write
	failed int           // calls that fail from now on
}

var errStore = errors.New("no answer")

// WriteLogs implements runstore.Logs.
func (s *fakeStore) WriteLogs(ctx context.Context, writes []*runstore.LogWrite) error {
	s.mu.Lock()
	s.times = append(s.times, time.Since(s.begun))
	fails := s.failed > 0
	s.failed = max(0, s.failed-1)
	s.mu.Unlock()
	time.Sleep(s.took)
	if fails {
		return errStore
	}
	return s.Memory.WriteLogs(ctx, writes)
}

func newStore(t testing.TB, runs ...string) *fakeStore {
	t.Helper()
	s := &fakeStore{Memory: runstore.NewMemory(), begun: time.Now()}
	for _, id := range runs {
		if _, err := s.Create(context.Background(), &runtype.Run{ID: id, Flow: "F", Subject: id, Phase: runtype.Running}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// fail makes further calls fail.
func (s *fakeStore) fail(calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed += calls
}

func newWriter(s *fakeStore) *Writer {
	return NewWriter(s, slog.New(slog.DiscardHandler), context.Background, func(*runstore.LogWrite) {})
}

// lines returns what the store has of a run; "<n>" is what is left out.
func (s *fakeStore) lines(t testing.TB, run string) (lines []string) {
	t.Helper()
	page, err := s.ReadLogs(context.Background(), run, runstore.LogQuery{Limit: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range page.Chunks {
		if c.LeftOut != 0 {
			lines = append(lines, fmt.Sprintf("<%d>", c.LeftOut))
		}
		for _, l := range c.Lines {
			lines = append(lines, l.Text)
		}
	}
	return lines
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func print(a *Attempt, text string) {
	_, _ = a.Stream(runstore.LogOut).Write([]byte(text)) // it never fails
}

// finish closes an attempt and waits for its lines, as a run does that rests.
func finish(a *Attempt) {
	a.Close()
	a.writer.Flush()
}

// Lines are written soon, together, and not more often than once an interval.
func TestWritesAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "a", "b")
		s.took = 5 * time.Millisecond
		w := newWriter(s)
		a, b := w.NewAttempt(Facts{Run: "a"}, nil), w.NewAttempt(Facts{Run: "b"}, nil)
		for i := range 250 { // 250 ms
			print(a, fmt.Sprintf("a%d\n", i))
			print(b, fmt.Sprintf("b%d\n", i))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, "times of writes", s.times, []time.Duration{10 * time.Millisecond, 110 * time.Millisecond, 210 * time.Millisecond, 310 * time.Millisecond})
		want(t, "lines of a and b", []int{len(s.lines(t, "a")), len(s.lines(t, "b"))}, []int{250, 250})
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		want(t, "a writer without lines is at work", w.busy, false)
	})
}

// Who waits for lines waits for one write, not for the interval; without lines there is nothing to wait for.
func TestFlushWritesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "a")
		s.took = 3 * time.Millisecond
		w := newWriter(s)
		begun := time.Now()
		w.NewAttempt(Facts{Run: "a"}, nil).Close()
		want(t, "without lines", time.Since(begun), time.Duration(0))
		for i := range 3 {
			a := w.NewAttempt(Facts{Run: "a", Attempt: i}, nil)
			print(a, fmt.Sprintf("%d\nno end", i))
			finish(a)
			want(t, "an end takes a write", time.Since(begun), time.Duration(i+1)*s.took)
		}
		want(t, "lines", s.lines(t, "a"), []string{"0", "no end", "1", "no end", "2", "no end"})
	})
}

// A flush while the write is under way that has the last lines waits for it.
func TestFlushDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "a")
		s.took = time.Second
		a := newWriter(s).NewAttempt(Facts{Run: "a"}, nil)
		print(a, "x\n")
		time.Sleep(Gather + time.Millisecond)
		finish(a)
		want(t, "it ended", time.Since(s.begun), Gather+time.Second)
		want(t, "lines", s.lines(t, "a"), []string{"x"})
	})
}

// While the store does not answer, attempts end after one try, lines are kept, and what is given up is told.
func TestAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "a", "b")
		s.fail(3)
		w := newWriter(s)
		a, b := w.NewAttempt(Facts{Run: "a"}, nil), w.NewAttempt(Facts{Run: "b"}, nil)
		print(a, "one\n")
		finish(a)
		print(b, "two\n")
		begun := time.Now()
		finish(b)
		want(t, "nobody waits for a store that fails", time.Since(begun), time.Duration(0))
		time.Sleep(time.Minute)
		want(t, "lines", []any{s.lines(t, "a"), s.lines(t, "b")}, []any{[]string{"one"}, []string{"two"}})

		s.fail(tries)
		print(a, "lost\n")
		time.Sleep(time.Minute)
		print(a, "three\n")
		finish(a)
		time.Sleep(time.Second)
		want(t, "lines after a long outage", s.lines(t, "a"), []string{"one", "<5>", "three"})
	})
}

// An attempt ends without waiting for its lines, and attempts of a run that wait together are one write. When more than
// maxWaiting waits, it ends after the write, so that memory is bounded.
func TestCloseWaitsForRoomOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "a")
		s.took = time.Second
		w := newWriter(s)
		const size = runstore.MaxAttemptLog / 2 // of the first half of an attempt
		begun, closed := time.Now(), 0
		for ; time.Since(begun) < s.took; closed++ {
			if closed > 2*maxWaiting/size {
				t.Fatal("what waits has no bound")
			}
			a := w.NewAttempt(Facts{Run: "a", Attempt: closed}, nil)
			print(a, strings.Repeat(strings.Repeat("x", 1000)+"\n", size/1100))
			a.Close()
		}
		if least := maxWaiting / size; closed < least {
			t.Errorf("attempt %d waited, want the first %d not to", closed, least)
		}
		want(t, "writes for all of them", len(s.times), 1)
		w.Flush()
	})
}

// Lines without text have a bound, too: their time and their stream are stored.
func TestEmptyLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "a")
		a := newWriter(s).NewAttempt(Facts{Run: "a"}, nil)
		const lines = 100_000
		print(a, strings.Repeat("\n", lines))
		finish(a)
		page, err := s.ReadLogs(t.Context(), "a", runstore.LogQuery{Limit: lines})
		if err != nil {
			t.Fatal(err)
		}
		stored, kept, left := 0, 0, int64(0)
		for _, c := range page.Chunks {
			text, err := json.Marshal(c.Lines)
			if err != nil {
				t.Fatal(err)
			}
			stored, kept, left = stored+len(text), kept+len(c.Lines), left+c.LeftOut
		}
		if stored > runstore.MaxAttemptLog || stored < runstore.MaxAttemptLog/2 || int64(kept)+left != lines {
			t.Errorf("%d bytes are stored for %d lines, %d are said to be left out", stored, kept, left)
		}
	})
}

// The end of the engine ends the writer.
func TestTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "a")
		s.fail(1 << 20)
		ctx, cancel := context.WithCancel(t.Context())
		w := NewWriter(s, slog.New(slog.DiscardHandler), func() context.Context { return ctx }, func(*runstore.LogWrite) {})
		a := w.NewAttempt(Facts{Run: "a"}, nil)
		print(a, "x\n")
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		want(t, "at work", w.busy, false)
	})
}

// burst is what an attempt prints at once, and what happens then.
type burst struct {
	lines, size, failures int
	pause                 time.Duration
}

// Whatever is printed, the first and the last lines are there, their order is kept, the bounds hold,
// and what is missing is told to the byte.
func TestHeadAndTail(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		failures := 0
		bursts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) burst {
			return burst{rapid.IntRange(1, 3000).Draw(t, "lines"), rapid.IntRange(0, 300).Draw(t, "bytes"), rapid.SampledFrom([]int{0, 0, 0, 0, 1, 3}).Draw(t, "failures"),
				rapid.SampledFrom([]time.Duration{0, 15 * time.Millisecond, time.Second}).Draw(t, "pause")}
		}), 0, 12).Draw(rt, "bursts")
		var all, stored []string
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, "a")
			a := newWriter(s).NewAttempt(Facts{Run: "a"}, nil)
			for i, b := range bursts {
				if failures += b.failures; failures < tries { // of them all, so that no write is given up
					s.fail(b.failures)
				}
				for j := range b.lines {
					line := fmt.Sprintf("%d.%d.%s", i, j, strings.Repeat("x", b.size))
					all = append(all, line)
					print(a, line+"\n")
				}
				time.Sleep(b.pause)
			}
			finish(a)
			time.Sleep(time.Minute)
			stored = s.lines(t, "a")
		})
		if err := checkEnds(all, stored); err != "" {
			rt.Fatal(err)
		}
	})
}

// checkEnds says what is wrong with the lines that are kept of all.
func checkEnds(all, stored []string) string {
	total, kept, left, gaps := 0, 0, 0, 0
	var cost, costKept int64
	for _, line := range all {
		total += len(line) + 1
		cost += runstore.LogLine{Text: line}.Cost()
	}
	var texts []string
	for _, line := range stored {
		n := 0
		if _, err := fmt.Sscanf(line, "<%d>", &n); err == nil {
			left += n
			gaps++
			continue
		}
		texts = append(texts, line)
		kept += len(line) + 1
		costKept += runstore.LogLine{Text: line}.Cost()
	}
	n := 0
	for n < len(texts) && texts[n] == all[n] {
		n++
	}
	tail := texts[n:]
	switch {
	case kept+left != total:
		return fmt.Sprintf("%d bytes were printed, %d are kept, %d are said to be left out", total, kept, left)
	case costKept > runstore.MaxAttemptLog, left > 0 && costKept < runstore.MaxAttemptLog/2, gaps > 1, left > 0 && cost <= runstore.MaxAttemptLog/2:
		return fmt.Sprintf("%d bytes are kept, %d left out in %d places", kept, left, gaps)
	case len(tail) > len(all), !slices.Equal(tail, all[len(all)-len(tail):]), gaps > 0 && (n == 0 || len(tail) == 0):
		return fmt.Sprintf("%d lines of the beginning are followed by %d that are not the end", n, len(tail))
	}
	return ""
}

// A line that is too long is several, and no character is cut.
func TestLongLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "a")
		a := newWriter(s).NewAttempt(Facts{Run: "a"}, nil)
		text := "x" + strings.Repeat("ü", runstore.MaxLogLine)
		print(a, text+"\r\nbad \xff\x00byte\n")
		finish(a)
		lines := s.lines(t, "a")
		want(t, "the last line", lines[len(lines)-1], "bad \uFFFDbyte")
		want(t, "the long one", strings.Join(lines[:len(lines)-1], "") == text, true)
		for _, l := range lines {
			if len(l) > runstore.MaxLogLine {
				t.Errorf("a line has %d bytes", len(l))
			}
		}
	})
}

// A process that is killed while it prints a secret leaves no part of it.
func TestACutSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r redact.Redactor
		r.Add("hunter22")
		s := newStore(t, "a")
		a := newWriter(s).NewAttempt(Facts{Run: "a"}, &r)
		print(a, "login hunter2") // and the process is killed
		finish(a)
		want(t, "lines", strings.Join(s.lines(t, "a"), "|"), "login ***")
	})
}

// A secret is found however it is printed: in pieces, over several lines, with pauses.
func TestSecrets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"BEGIN\nabc\ndef\nEND", "BEG", "tok\"en", `tok\"en`, "tok", "BE", "B", "\n", "IN\nabc", "x"}), 0, 12).Draw(rt, "words")
		text := strings.Join(words, rapid.SampledFrom([]string{"", " ", "\n"}).Draw(rt, "between"))
		pieces := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 5).Draw(rt, "pieces")
		pause := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(rt, "pause")
		var r redact.Redactor
		for _, value := range []string{"BEGIN\nabc\ndef\nEND", "BEG", "tok\"en"} {
			r.Add(value)
		}
		var got []string
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, "a")
			a := newWriter(s).NewAttempt(Facts{Run: "a"}, &r)
			for i, rest := 0, text; rest != ""; i++ {
				n := min(pieces[i%len(pieces)], len(rest))
				print(a, rest[:n])
				rest = rest[n:]
				time.Sleep(pause)
			}
			finish(a)
			got = s.lines(t, "a")
		})
		want, held := r.Stream(text) // the end may be the beginning of a secret
		if len(held) >= heldSecret {
			want += "***"
		} else {
			want += r.Text(held)
		}
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if printed := strings.Join(append(got, ""), "\n"); printed != want {
			rt.Fatalf("%q was printed as %q, want %q", text, printed, want)
		}
	})
}
