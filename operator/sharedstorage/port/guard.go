package port

import "github.com/pawl-dev/pawl/fault"

// Guard turns a panic of an adapter into the fault PANIC.
func Guard(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.Panic.Errorf("%v", r)
		}
	}()
	return do()
}
