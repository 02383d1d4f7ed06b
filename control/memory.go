package control

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MemoryHistory is the number of changes that the feed of Memory remembers. A watch from
// an older position returns ErrGap.
const MemoryHistory = 1000

// Memory is Objects without durability, for tests and `pawl dev`.
type Memory struct {
	mu       sync.Mutex
	objects  map[Ref]Object
	changes  []Change[Object] // the newest MemoryHistory
	revision int64
	changed  chan struct{} // closed by the next change
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{objects: map[Ref]Object{}, changed: make(chan struct{})}
}

// Get implements Objects.
func (m *Memory) Get(ctx context.Context, ref Ref) (Object, error) {
	if err := ctx.Err(); err != nil {
		return Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, ok := m.objects[ref]; ok {
		return o.Copy(), nil
	}
	return Object{}, NotFoundError(ref)
}

// List implements Objects.
func (m *Memory) List(ctx context.Context, q Query) (Page, error) {
	after, paged, err := q.After()
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	refs := slices.SortedFunc(maps.Keys(m.objects), compareRefs)
	var page Page
	for _, ref := range refs {
		o := m.objects[ref]
		if paged && compareRefs(ref, after) <= 0 ||
			q.Kind != "" && q.Kind != ref.Kind || q.Namespace != "" && q.Namespace != ref.Namespace || !q.Selector.Matches(o.Labels) {
			continue
		}
		if len(page.Items) == q.Size() {
			page.Next = page.Items[len(page.Items)-1].Ref.String()
			break
		}
		page.Items = append(page.Items, o.Copy())
	}
	return page, nil
}

// Apply implements Objects.
func (m *Memory) Apply(ctx context.Context, want Object) (Object, error) {
	return m.write(ctx, want.Ref, func(old *Object) (Object, Act, error) { return DecideApply(time.Now(), old, want) })
}

// Update implements Objects.
func (m *Memory) Update(ctx context.Context, next Object) (Object, error) {
	return m.write(ctx, next.Ref, func(old *Object) (Object, Act, error) { return DecideUpdate(old, next) })
}

// Delete implements Objects.
func (m *Memory) Delete(ctx context.Context, ref Ref, revision int64) (Object, error) {
	return m.write(ctx, ref, func(old *Object) (Object, Act, error) { return DecideDelete(time.Now(), old, ref, revision) })
}

func (m *Memory) write(ctx context.Context, ref Ref, decide func(*Object) (Object, Act, error)) (Object, error) {
	if err := ctx.Err(); err != nil {
		return Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var old *Object
	if o, ok := m.objects[ref]; ok {
		old = &o
	}
	next, act, err := decide(old)
	if err != nil || act == Keep {
		return next.Copy(), err
	}
	m.revision++
	next.Revision = m.revision
	version := strconv.FormatInt(m.revision, 10)
	change := Change[Object]{Type: Put, Item: Item[Object]{Key: ref.String(), Version: version, Value: next}, Version: version}
	if act == Remove {
		change.Type = Delete
		delete(m.objects, ref)
	} else {
		m.objects[ref] = next
	}
	if len(m.changes) == MemoryHistory {
		m.changes[0] = Change[Object]{}
		m.changes = m.changes[1:]
	}
	m.changes = append(m.changes, change)
	close(m.changed)
	m.changed = make(chan struct{})
	return next.Copy(), nil
}

// Feed implements Objects.
func (m *Memory) Feed(kind string) Source[Object] { return memoryFeed{m, kind} }

type memoryFeed struct {
	m    *Memory
	kind string
}

func (f memoryFeed) List(ctx context.Context) ([]Item[Object], string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	var items []Item[Object]
	for ref, o := range f.m.objects {
		if f.kind == "" || f.kind == ref.Kind {
			items = append(items, Item[Object]{Key: ref.String(), Version: strconv.FormatInt(o.Revision, 10), Value: o.Copy()})
		}
	}
	return items, strconv.FormatInt(f.m.revision, 10), nil
}

func (f memoryFeed) Watch(ctx context.Context, version string) iter.Seq2[Change[Object], error] {
	return func(yield func(Change[Object], error) bool) {
		position, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			yield(Change[Object]{}, ErrGap)
			return
		}
		for {
			changes, changed, ok := f.m.since(position)
			if !ok {
				yield(Change[Object]{}, ErrGap)
				return
			}
			for _, c := range changes {
				position++
				if f.kind == "" || f.kind == c.Item.Value.Kind {
					c.Item.Value = c.Item.Value.Copy()
				} else {
					c = Change[Object]{Type: Bookmark, Version: c.Version}
				}
				if !yield(c, nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// since returns the changes after a position, and a channel that the next change closes.
func (m *Memory) since(position int64) ([]Change[Object], <-chan struct{}, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.revision - int64(len(m.changes)) // the oldest position that a watch can continue from
	if position < first || position > m.revision {
		return nil, nil, false
	}
	return slices.Clone(m.changes[position-first:]), m.changed, true
}

func compareRefs(a, b Ref) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
