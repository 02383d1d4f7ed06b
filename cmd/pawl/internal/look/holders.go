package look

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/view"
)

// getWorkers lists the processes that work on runs.
func (a verbs) getWorkers(ctx context.Context, b backend.Backend, names []string, o getOptions) error {
	return getHolders(ctx, a, names, o, b.Workers, func(w view.Worker) string { return w.Name }, "no process has claimed runs of this store\n", view.WorkerTable)
}

// getLocks lists the locks that processes share.
func (a verbs) getLocks(ctx context.Context, b backend.Backend, names []string, o getOptions) error {
	return getHolders(ctx, a, names, o, b.Locks, func(l view.Lock) string { return l.Name }, "there are no locks\n", view.LockTable)
}

func getHolders[T any](ctx context.Context, a verbs, names []string, o getOptions, read func(context.Context) ([]T, error), nameOf func(T) string, none string, table func([]T, time.Time) view.Table) error {
	all, err := read(ctx)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		all, err = named(names, o, func(name string) (T, error) {
			for _, one := range all {
				if nameOf(one) == name {
					return one, nil
				}
			}
			var nobody T
			return nobody, control.NotFound.Errorf("there is no %s", name)
		})
		if err != nil {
			return err
		}
		return a.Emit(oneOrList(all), cli.NamesOf(all, nameOf), func() string { return table(all, time.Now()).Text(a.Style(a.Out)) })
	}
	if err := cli.SortBy(all, o.sortBy); err != nil {
		return err
	}
	return a.Emit(cli.ListOf(all), cli.NamesOf(all, nameOf), func() string {
		if len(all) == 0 {
			return none
		}
		return table(all, time.Now()).Text(a.Style(a.Out))
	})
}
