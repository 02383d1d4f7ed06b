package tool

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// exitGrace is how long fdbcli may take to end after its last line.
const exitGrace = 500 * time.Millisecond

// Transact implements port.Database by an interactive fdbcli, whose standard input is a pseudo terminal and
// whose output are pipes, so that nothing but its own texts and fdb.Prompt is in it.
//
// It is experimental: it follows the published source (FlowLineNoise.actor.cpp and linenoise.c at 7.1.67,
// 7.3.69 and 7.4.6), and nobody has run it against a released fdbcli yet.
//
// A process that ends or hangs before the commit was sent is Refused, after that Unknown.
func (d *Database) Transact(ctx context.Context, at port.Endpoint, read []fdb.Range, decide func(fdb.Values) ([]fdb.Write, error)) fdb.Result {
	j, err := d.begin(ctx, at, fdb.Transaction())
	if err != nil {
		return refused(err)
	}
	defer j.end()
	terminal, device, err := openTerminal()
	if err != nil {
		return refused(err)
	}
	defer terminal.Close()
	p, err := start(j.ctx, j.command(device), d.options.MaxStatus)
	device.Close()
	if err != nil {
		return refused(j.startError(err))
	}
	grace := time.Duration(0)
	defer func() { p.endWithin(grace) }() // also when decide panics
	stop := context.AfterFunc(j.ctx, func() {
		_ = terminal.SetWriteDeadline(time.Unix(1, 0)) // a tool that reads nothing blocks us
	})
	defer stop()
	dialogue := fdb.NewDialogue(read, decide)
	printed, whole := talk(func() error { return cmp.Or(j.ctx.Err(), d.options.Allowed()) }, p, terminal, dialogue)
	if whole {
		grace = exitGrace
		j.learn()
		return dialogue.Result()
	}
	j.forget()
	return j.explained(dialogue.Result(), printed)
}

// talk leads a dialogue to its end. Of one that ends too soon it returns what the process printed last. When
// allowed returns an error nothing is sent any more.
func talk(allowed func() error, p *process, terminal *os.File, dialogue *fdb.Dialogue) (printed string, whole bool) {
	for {
		stdout, stderr, asked := p.asked()
		if !asked {
			dialogue.Ended()
			return firstLine(stderr, stdout), false
		}
		line, last := dialogue.Next(stdout, stderr)
		err := allowed()
		if err == nil {
			_, err = terminal.WriteString(line + "\n")
		}
		switch {
		case last:
			dialogue.Ended()
			return "", true
		case err != nil:
			dialogue.Ended()
			return err.Error(), false
		}
	}
}

// asked waits until the process asks for a line. It returns false when the process has ended, with what
// it printed.
func (p *process) asked() (stdout, stderr string, asked bool) {
	for {
		if text, ok := p.out.takeAsked(fdb.Prompt); ok {
			p.err.drain() // what was written before the prompt
			return string(text), string(p.err.take()), true
		}
		select {
		case <-p.out.news:
		case <-p.done:
			p.wait()
			return string(p.out.take()), string(p.err.take()), false
		}
	}
}

// explained says of a dialogue that ended too soon why it did.
func (j *job) explained(r fdb.Result, printed string) fdb.Result {
	if cause := context.Cause(j.ctx); cause != nil {
		if r.Reason == fdb.ToolEnded {
			r.Reason = endReason(cause)
		}
		printed = cause.Error()
	}
	if r.Text == "" {
		r.Text = printed
	}
	return r
}
