package cloudstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// pagedList is a server's list with pages.
type pagedList struct {
	ids    []string
	before func() // each page
}

func (s *pagedList) answer(r *http.Request) (*http.Response, error) {
	res := served(r)
	if commandOf(r) != "listVirtualMachines" {
		return res, nil
	}
	if s.before != nil {
		s.before()
	}
	page, _ := strconv.Atoi(r.Form.Get("page"))
	size, _ := strconv.Atoi(r.Form.Get("pagesize"))
	from := min((page-1)*size, len(s.ids))
	type vm struct {
		ID   string           `json:"id"`
		Tags []map[string]any `json:"tags"`
	}
	var all []vm
	shown := s.ids[from:min(from+size, len(s.ids))]
	if id := r.Form.Get("id"); id != "" {
		shown = slices.DeleteFunc(slices.Clone(s.ids), func(other string) bool { return other != id })
	}
	for _, id := range shown {
		all = append(all, vm{id, []map[string]any{{"key": cluster.TagInstallation, "value": "exam"}}})
	}
	text, err := json.Marshal(map[string]any{"listvirtualmachinesresponse": map[string]any{"count": max(len(all), min(1, size)*len(s.ids)), "virtualmachine": all}})
	return reply(200, string(text)), err
}

// Concurrent creates and deletes between two pages: a list that ends without an error
// contains every resource that existed throughout, once.
func TestNothingIsMissedBetweenPages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &pagedList{}
		steady := map[string]int{}
		n := rapid.IntRange(0, 40).Draw(rt, "resources")
		for i := range n {
			s.ids = append(s.ids, fmt.Sprint("s", i))
		}
		leaving := map[string]bool{}
		for _, id := range s.ids {
			if rapid.IntRange(0, 3).Draw(rt, "leaves") == 0 {
				leaving[id] = true
			} else {
				steady[id] = 0
			}
		}
		fresh := 0
		s.before = func() {
			switch rapid.IntRange(0, 4).Draw(rt, "change") {
			case 0: // delete one
				for i, id := range s.ids {
					if leaving[id] {
						s.ids = append(s.ids[:i:i], s.ids[i+1:]...)
						break
					}
				}
			case 1: // create one at the end
				fresh++
				s.ids = append(s.ids, fmt.Sprint("f", fresh))
			case 2: // or anywhere, if the server has another order
				fresh++
				at := rapid.IntRange(0, len(s.ids)).Draw(rt, "at")
				s.ids = append(s.ids[:at:at], append([]string{fmt.Sprint("f", fresh)}, s.ids[at:]...)...)
			}
		}
		p := provider(t, s.answer, func(o *Options) { o.Rate = 1_000_000 })
		var at cluster.Cursor
		for range 200 {
			page, err := p.List(t.Context(), cluster.Filter{Size: 4}, at)
			if err != nil {
				if fault.Of(err) != cluster.ProviderUnreachable {
					rt.Fatalf("%v", err)
				}
				return // an error: the caller tries later
			}
			for _, r := range page.Items {
				if _, ok := steady[r.ID]; ok {
					steady[r.ID]++
				}
			}
			if at = page.Next; at == "" {
				break
			}
		}
		if at != "" {
			rt.Fatal("the list has no end")
		}
		for id, seen := range steady {
			if seen != 1 {
				rt.Errorf("%s, which was there all the time, is listed %d times", id, seen)
			}
		}
	})
}

func TestAQuietListIsReadInFullPages(t *testing.T) {
	s, calls := &pagedList{}, 0
	for i := range 1250 {
		s.ids = append(s.ids, fmt.Sprint(i))
	}
	s.before = func() { calls++ }
	p := provider(t, s.answer, func(o *Options) { o.Rate = 1000 })
	seen, pages := 0, 0
	for at := cluster.Cursor(""); ; {
		page, err := p.List(t.Context(), cluster.Filter{}, at)
		if err != nil {
			t.Fatal(err)
		}
		seen, pages = seen+len(page.Items), pages+1
		if at = page.Next; at == "" {
			break
		}
	}
	if seen != 1250 || pages != 3 || calls != pages {
		t.Errorf("%d resources in %d pages by %d calls", seen, pages, calls)
	}
}

// A server that ignores pages must not cause an endless list.
func TestAListWithoutAnEnd(t *testing.T) {
	calls := 0
	p := provider(t, func(r *http.Request) (*http.Response, error) {
		calls++
		return reply(200, `{"listnetworkofferingsresponse":{"count":2,"networkoffering":[{"id":"a"},{"id":"b"}]}}`), nil
	}, func(o *Options) { o.PageSize = 2 })
	if _, err := p.Catalog(t.Context(), cluster.Owner{}, cluster.NetworkOffering); fault.Of(err) != cluster.ProviderUnreachable || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestCursorsOfOthersAreRefused(t *testing.T) {
	p := provider(t, func(r *http.Request) (*http.Response, error) { return served(r), nil })
	for _, c := range []cluster.Cursor{"x", "-1/x", "2/", "2", "99999999999999999999/x", "/x"} {
		if _, err := p.List(t.Context(), cluster.Filter{}, c); fault.Of(err) != cluster.ProviderRefused {
			t.Errorf("%q: %v", c, err)
		}
	}
}
