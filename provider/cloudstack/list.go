package cloudstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
)

// position is where a list continues: after the resources last seen. ids[0] had the given
// index.
type position struct {
	index int
	ids   []string // newest first
}

// maxAnchors ids are kept, so that a list continues although the last resource has
// disappeared.
const maxAnchors = 3

func (at position) cursor() cluster.Cursor {
	return cluster.Cursor(fmt.Sprintf("%d/%s", at.index, strings.Join(at.ids, ",")))
}

func parsePosition(c cluster.Cursor) (position, error) {
	if c == "" {
		return position{index: -1}, nil
	}
	index, ids, ok := strings.Cut(string(c), "/")
	n, err := strconv.Atoi(index)
	if !ok || err != nil || n < 0 || n > 100_000_000 || ids == "" {
		return position{}, cluster.ProviderRefused.Errorf("cursor %q", c)
	}
	return position{n, strings.Split(ids, ",")}, nil
}

// List returns a page in the server's order. PROVIDER_UNREACHABLE also if the list has
// changed so much that resources could be missed.
func (p *Provider) List(ctx context.Context, f cluster.Filter, at cluster.Cursor) (cluster.Page, error) {
	if f.Kind == "" {
		f.Kind = cluster.VM
	}
	s, err := kindSpecOf(f.Kind)
	if err != nil {
		return cluster.Page{}, err
	}
	here, err := parsePosition(at)
	if err != nil {
		return cluster.Page{}, err
	}
	asked := f.Size
	var items []item
	var next cluster.Cursor
	for {
		most := p.pages.size()
		if f.Size = asked; f.Size <= 0 || f.Size > most {
			f.Size = most
		}
		if items, next, err = p.page(ctx, s, &f, here, most); !p.pages.shrink(err, most) {
			break
		}
	}
	if err != nil {
		return cluster.Page{}, err
	}
	page := cluster.Page{Items: make([]cluster.Resource, 0, len(items)), Next: next}
	for i := range items {
		if r := s.toResource(&items[i], f.Zone); p.matches(&f, &r) {
			page.Items = append(page.Items, r)
		}
	}
	return page, nil
}

// window is a page of the server: its number, from 1, and its size.
type window struct{ page, size int }

func (w window) start() int { return (w.page - 1) * w.size }
func (w window) end() int   { return w.start() + w.size }

// windowAt returns the page that contains a position and most of the resources after it.
// The server's pages begin at multiples of their size, so windowAt chooses the size: small
// sizes only if no larger page reaches beyond the position. With very small pages, the
// position may be the last resource of the page.
func windowAt(at position, size, most int) window {
	if at.index < 0 {
		return window{1, size}
	}
	var best window
	most = min(most, 2*size+2)
	for s := most; s >= minPageSize; s-- {
		if s < most/2 && best.end() > at.index+1 {
			break
		}
		w := window{at.index/s + 1, s}
		if best.size == 0 || w.end() > best.end() {
			best = w
		}
	}
	return best
}

// page reads the resources after a position. Concurrent creates and deletes move the
// position: page therefore also reads the resource last seen, and searches the
// neighbouring pages if it is not there.
func (p *Provider) page(ctx context.Context, s *kindSpec, f *cluster.Filter, at position, most int) ([]item, cluster.Cursor, error) {
	w := windowAt(at, f.Size, most)
	if at.index < 0 {
		items, err := p.readWindow(ctx, s, f, w)
		return w.after(items, 0, f.Size, err)
	}
	var seen [3][]item
	for _, id := range at.ids {
		for i, shift := range []int{0, -1, 1} {
			w := window{w.page + shift, w.size}
			if w.page < 1 {
				continue
			}
			if seen[i] == nil {
				var err error
				if seen[i], err = p.readWindow(ctx, s, f, w); err != nil {
					return nil, "", err
				}
			}
			if j := slices.IndexFunc(seen[i], func(it item) bool { return string(it.ID) == id }); j >= 0 {
				if at.index == w.end()-1 && j == w.size-1 {
					return p.readNext(ctx, s, f, w, seen[i])
				}
				return w.after(seen[i], j+1, f.Size, nil)
			}
		}
		// Skip an anchor only if it is gone.
		var refused *refusal
		if _, err := p.byID(ctx, s, id, f.Zone); !errors.Is(err, errNotListed) && (!errors.As(err, &refused) || !refused.unknownID()) {
			break
		}
	}
	return nil, "", cluster.ProviderUnreachable.Errorf("%s: the list changes faster than it can be read", s.list)
}

// readNext reads the page after the one that ends with the position, if no page contains
// both. It accepts the result only if the page before is unchanged.
func (p *Provider) readNext(ctx context.Context, s *kindSpec, f *cluster.Filter, w window, before []item) ([]item, cluster.Cursor, error) {
	next := window{w.page + 1, w.size}
	items, err := p.readWindow(ctx, s, f, next)
	if err != nil {
		return nil, "", err
	}
	again, err := p.readWindow(ctx, s, f, w)
	if err != nil {
		return nil, "", err
	}
	if !slices.EqualFunc(before, again, func(a, b item) bool { return a.ID == b.ID }) {
		return nil, "", cluster.ProviderUnreachable.Errorf("%s: the list changes faster than it can be read", s.list)
	}
	if len(items) == 0 {
		return nil, "", nil
	}
	return next.after(items, 0, f.Size, nil)
}

// after returns the items of a window from an index on, and the position after them.
func (w window) after(items []item, from, size int, err error) ([]item, cluster.Cursor, error) {
	if err != nil {
		return nil, "", err
	}
	end := min(len(items), from+size)
	if end == len(items) && len(items) < w.size {
		return items[from:end], "", nil
	}
	return items[from:end], positionAfter(items, end, w.start()).cursor(), nil
}

// positionAfter returns the position after the first items of a window that begins at
// start.
func positionAfter(items []item, end, start int) position {
	at := position{index: start + end - 1}
	for i := end - 1; i >= max(0, end-maxAnchors); i-- {
		at.ids = append(at.ids, string(items[i].ID))
	}
	return at
}

func (p *Provider) readWindow(ctx context.Context, s *kindSpec, f *cluster.Filter, w window) ([]item, error) {
	by := params{"page": strconv.Itoa(w.page), "pagesize": strconv.Itoa(w.size)}
	if p.o.Account != nil || f.Network != "" || f.Foreign {
		maps.Copy(by, allAccounts)
	}
	switch {
	case f.Network != "":
		by[s.network] = f.Network
	case f.Cluster != "":
		by["tags[0].key"], by["tags[0].value"] = cluster.TagCluster, f.Cluster
	case !f.Foreign:
		by["tags[0].key"], by["tags[0].value"] = cluster.TagInstallation, p.o.Installation
	}
	items, _, err := query(ctx, p, s.request(f.Zone, by), s.item, idOf)
	if len(items) > w.size {
		return nil, unreadable(s.list, "the page is longer than asked for")
	}
	return items, err
}

// matches applies the filters that the server does not know.
func (p *Provider) matches(f *cluster.Filter, r *cluster.Resource) bool {
	switch {
	case f.Zone != "" && r.Zone != f.Zone, f.Zone == "" && r.Zone != "" && !p.zoneAllowed(r.Zone),
		f.Cluster != "" && r.Tags[cluster.TagCluster] != f.Cluster,
		r.Kind == cluster.Address && r.Power == cluster.PowerGone:
		return false
	case f.Network != "", f.Foreign && f.Cluster == "":
		return true
	default:
		return r.Tags[cluster.TagInstallation] == p.o.Installation
	}
}
