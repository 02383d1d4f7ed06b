package providers

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Tries of a page of a list, while the fault is transient, and the pause after
// the first.
const (
	listTries = 3
	listPause = 200 * time.Millisecond
)

// All returns the items of all pages of a list.
func All(ctx context.Context, provider cluster.Provider, f cluster.Filter) ([]cluster.Resource, error) {
	var items []cluster.Resource
	for page := cluster.Cursor(""); ; {
		p, err := provider.List(ctx, f, page)
		if err != nil {
			return nil, err
		}
		items = append(items, p.Items...)
		if page = p.Next; page == "" {
			return items, nil
		}
	}
}

// Kinds returns the kinds that are listed, VMs first.
func Kinds(provider cluster.Provider) []cluster.Kind {
	kinds := []cluster.Kind{cluster.VM}
	for _, k := range provider.Capabilities().Kinds {
		if k != cluster.VM && k != cluster.KeyPair {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// EachPage calls visit for each item of a list. It reads a page again while the
// fault is transient.
func EachPage(ctx context.Context, provider cluster.Provider, f cluster.Filter, visit func(*cluster.Resource)) error {
	for at := cluster.Cursor(""); ; {
		var page cluster.Page
		var err error
		for try := 1; ; try++ {
			if page, err = provider.List(ctx, f, at); err == nil || ctx.Err() != nil || fault.Of(err).Class != fault.Transient || try == listTries {
				break
			}
			sleep(ctx, time.Duration(try)*listPause)
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if at = page.Next; at == "" {
			return nil
		}
	}
}

// sleep waits for a duration or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// FindEntry returns the entry of a catalogue with an id or a name; without one,
// the default. nil if there is none.
func FindEntry(ctx context.Context, provider cluster.Provider, owner cluster.Owner, kind cluster.Kind, id string) (*cluster.Entry, error) {
	entries, err := provider.Catalog(ctx, owner, kind)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(entries, func(e cluster.Entry) bool { return e.ID == id })
	if i < 0 {
		i = slices.IndexFunc(entries, func(e cluster.Entry) bool { return id != "" && strings.EqualFold(e.Name, id) })
	}
	if i < 0 && id == "" {
		i = slices.IndexFunc(entries, func(e cluster.Entry) bool { return e.Default })
	}
	if i < 0 {
		return nil, nil //nolint:nilnil // as above
	}
	return &entries[i], nil
}
