package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Demo is a demo that was begun.
type Demo interface {
	Acts() []Act
	Play(context.Context, Act) error
	Wait(context.Context) error
	Close() error
}

// Main is the main function of a demo's program. It does not return.
func Main[D Demo](name string, begin func(context.Context, Options) (D, error)) {
	o := Options{Out: os.Stdout}
	flags := flag.NewFlagSet(name, flag.ExitOnError) // controller-runtime registers flags of its own
	flags.StringVar(&o.Root, "root", ".", "`folder` of the repository")
	flags.BoolVar(&o.Keep, "keep", false, "leave what was made running until Ctrl-C")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	if err := play(o, begin); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play[D Demo](o Options, begin func(context.Context, Options) (D, error)) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard())
	began := time.Now()
	d, err := begin(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, act := range d.Acts() {
		switch err := d.Play(ctx, act); {
		case ctx.Err() != nil:
			return errors.New("interrupted: what it has started is ended")
		case err != nil:
			return err
		}
	}
	if o.Keep {
		return d.Wait(ctx)
	}
	fmt.Fprintf(o.Out, "\ndone in %s\n", time.Since(began).Round(time.Second))
	return nil
}
