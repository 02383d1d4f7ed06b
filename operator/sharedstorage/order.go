package sharedstorage

import "time"

// order is what a run has told the writer before the switch, in this process. A
// process that begins knows of none: it is then as patient as at first.
type order struct {
	at     time.Time // of the last one
	starts int       // how often it was started again
}

// ordered notes an order that is given now.
func (w *work) ordered(start bool) {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	last := w.o.orders[w.t.RunID()]
	if last.at = w.o.now(); start {
		last.starts++
	}
	w.o.orders[w.t.RunID()] = last
}

func (w *work) lastOrder() (last order, known bool) {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	last, known = w.o.orders[w.t.RunID()]
	return last, known
}

// sinceOrder is how long ago the last one was given; unknown: how long the step waits.
func (w *work) sinceOrder() time.Duration {
	if last, known := w.lastOrder(); known {
		return w.o.now().Sub(last.at)
	}
	return w.waited()
}

// forgetOrders is for a switch that has ended, or gives up.
func (w *work) forgetOrders() {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	delete(w.o.orders, w.t.RunID())
}
