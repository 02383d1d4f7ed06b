package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/pawl-dev/pawl/fault"
)

// Declare a failure once, beside the code that returns it.
var DiskFull = fault.Declare(fault.Kind{
	Code: "EXAMPLE_DISK_FULL", Class: fault.Blocked,
	Title:  "the disk is full",
	Remedy: "Free some space, then resume.",
	Guide:  "Look at node {{.node}} first.",
})

func ExampleDeclare() {
	err := fmt.Errorf("backup: %w", DiskFull.Errorf("%s has no space left", "/srv").With("node", "n1"))

	fmt.Println(errors.Is(err, DiskFull))
	kind := fault.Of(err)
	fmt.Println(kind.Code, kind.Class, kind.Reason())
	fmt.Println(kind.Remedy)
	fmt.Println(fault.Details(err)["node"])
	fmt.Println(fault.Of(io.EOF).Code)
	// Output:
	// true
	// EXAMPLE_DISK_FULL blocked ExampleDiskFull
	// Free some space, then resume.
	// n1
	// UNKNOWN
}

func TestMessage(t *testing.T) {
	full := DiskFull.Errorf("no space")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nothing":           {nil, ""},
		"a fault":           {full, "no space"},
		"a fault, joined":   {errors.Join(full, nil), "no space"},
		"two faults":        {errors.Join(full, DiskFull.Errorf("nor here")), "no space\nEXAMPLE_DISK_FULL: nor here"},
		"a fault with more": {fmt.Errorf("copy: %w", full), "copy: EXAMPLE_DISK_FULL: no space"},
		"another error":     {io.EOF, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fault.Message(c.err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRegister(t *testing.T) {
	from := func(code fault.Code, source string) fault.Kind {
		return fault.Kind{Code: code, Title: "t", Remedy: "r", Source: source}
	}
	for name, c := range map[string]struct {
		kind fault.Kind
		ok   bool
	}{
		"a new one":                     {from("EXAMPLE_NEW", "a.yaml"), true},
		"the same file again":           {from("EXAMPLE_AGAIN", "a.yaml"), true},
		"another file":                  {from("EXAMPLE_AGAIN", "b.yaml"), false},
		"one of the program":            {from("UNKNOWN", "a.yaml"), false},
		"no UPPER_SNAKE":                {from("DiskFull", ""), false},
		"begins with a digit":           {from("2_MANY", ""), false},
		"a word is missing":             {from("DISK__FULL", ""), false},
		"without code":                  {from("", ""), false},
		"without remedy":                {fault.Kind{Code: "EXAMPLE_BARE", Title: "t"}, false},
		"without title":                 {fault.Kind{Code: "EXAMPLE_BARE", Remedy: "r"}, false},
		"a code of one word and digits": {from("EXAMPLE2", "a.yaml"), true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.kind.Code == "EXAMPLE_AGAIN" {
				if _, err := fault.Register(from("EXAMPLE_AGAIN", "a.yaml")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := fault.Register(c.kind); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDeclareTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a code was declared twice, and nothing happened")
		}
	}()
	fault.Declare(*DiskFull)
}

func TestLookup(t *testing.T) {
	for _, name := range []string{"EXAMPLE_DISK_FULL", "ExampleDiskFull"} {
		if kind, ok := fault.Lookup(name); !ok || kind.Code != DiskFull.Code {
			t.Errorf("%s: %v, %v", name, kind, ok)
		}
	}
	if _, ok := fault.Lookup("EXAMPLE_NOWHERE"); ok {
		t.Error("found what nobody declared")
	}
}
