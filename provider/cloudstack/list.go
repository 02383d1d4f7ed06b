package cloudstack

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
)

// place is where a list goes on: the number of the next page, and the last
// thing before it.
type place struct {
	page int
	last string
}

func (at place) cursor() cluster.Cursor {
	return cluster.Cursor(fmt.Sprintf("%d/%s", at.page, at.last))
}

func placeOf(c cluster.Cursor) (place, error) {
	if c == "" {
		return place{page: 1}, nil
	}
	page, last, ok := strings.Cut(string(c), "/")
	n, err := strconv.Atoi(page)
	if !ok || err != nil || n < 2 || n > 1_000_000 || last == "" {
		return place{}, cluster.ProviderRefused.Errorf("cursor %q", c)
	}
	return place{n, last}, nil
}

// List gives a page in the server's order. PROVIDER_UNREACHABLE also if the list
// has changed so much that nobody can say what would be missed.
func (p *Provider) List(ctx context.Context, f cluster.Filter, at cluster.Cursor) (cluster.Page, error) {
	if f.Kind == "" {
		f.Kind = cluster.VM
	}
	s, err := sortOf(f.Kind)
	if err != nil {
		return cluster.Page{}, err
	}
	here, err := placeOf(at)
	if err != nil {
		return cluster.Page{}, err
	}
	if f.Size <= 0 || f.Size > mostPage {
		f.Size = mostPage
	}
	items, next, err := p.page(ctx, s, &f, here)
	if err != nil {
		return cluster.Page{}, err
	}
	page := cluster.Page{Items: make([]cluster.Resource, 0, len(items)), Next: next}
	for i := range items {
		if r := s.show(&items[i], f.Zone); p.shows(&f, &r) {
			page.Items = append(page.Items, r)
		}
	}
	return page, nil
}

// page reads one page of the server. Things that go away before it move it up:
// so the last one seen must still stand right before it, else what has moved
// is taken from the page before.
func (p *Provider) page(ctx context.Context, s *sort, f *cluster.Filter, at place) ([]item, cluster.Cursor, error) {
	items, err := p.slice(ctx, s, f, at.page, f.Size)
	if err != nil {
		return nil, "", err
	}
	next := func(page int, items []item, last string) cluster.Cursor {
		if len(items) > 0 {
			last = string(items[len(items)-1].ID)
		}
		return place{page, last}.cursor()
	}
	if at.page > 1 {
		before, err := p.slice(ctx, s, f, (at.page-1)*f.Size, 1)
		if err != nil {
			return nil, "", err
		}
		if len(before) != 1 || string(before[0].ID) != at.last {
			missed, err := p.slice(ctx, s, f, at.page-1, f.Size)
			if err != nil {
				return nil, "", err
			}
			if i := index(missed, at.last); i >= 0 {
				return missed[i+1:], ending(len(missed) == f.Size, next(at.page, missed[i+1:], at.last)), nil
			}
			i := index(items, at.last) // something came in before it
			if i < 0 {
				return nil, "", cluster.ProviderUnreachable.Errorf("%s: the list changes faster than it can be read", s.list)
			}
			return items[i+1:], ending(len(items) == f.Size, next(at.page+1, items[i+1:], at.last)), nil
		}
	}
	return items, ending(len(items) == f.Size, next(at.page+1, items, at.last)), nil
}

// ending is the cursor of a list that goes on, or the end.
func ending(more bool, c cluster.Cursor) cluster.Cursor {
	if !more {
		return ""
	}
	return c
}

func index(items []item, id string) int {
	for i := range items {
		if string(items[i].ID) == id {
			return i
		}
	}
	return -1
}

func (p *Provider) slice(ctx context.Context, s *sort, f *cluster.Filter, page, size int) ([]item, error) {
	by := params{"page": strconv.Itoa(page), "pagesize": strconv.Itoa(size)}
	if p.o.Account != nil || f.Network != "" {
		maps.Copy(by, everyone)
	}
	switch {
	case f.Network != "":
		by[s.network] = f.Network
	case f.Cluster != "":
		by["tags[0].key"], by["tags[0].value"] = cluster.TagCluster, f.Cluster
	default:
		by["tags[0].key"], by["tags[0].value"] = cluster.TagInstallation, p.o.Installation
	}
	items, _, err := query(ctx, p, s.request(f.Zone, by), s.item, idOf)
	if len(items) > size {
		return nil, unreadable(s.list, "the page is longer than asked for")
	}
	return items, err
}

// shows applies what the server's list could not.
func (p *Provider) shows(f *cluster.Filter, r *cluster.Resource) bool {
	switch {
	case f.Zone != "" && r.Zone != f.Zone, f.Zone == "" && r.Zone != "" && !p.serves(r.Zone),
		f.Cluster != "" && r.Tags[cluster.TagCluster] != f.Cluster,
		r.Kind == cluster.Address && r.Power == cluster.Vanished:
		return false
	case f.Network != "":
		return true
	default:
		return r.Tags[cluster.TagInstallation] == p.o.Installation
	}
}
