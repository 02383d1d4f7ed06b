package notification

import (
	"fmt"
	"reflect"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"

	"github.com/pawl-dev/pawl/workflow/celenv"
)

// filterEnv knows the fields of an Event, so that a wrong name is refused with the spec.
var filterEnv = sync.OnceValues(func() (*cel.Env, error) {
	return celenv.New(
		ext.NativeTypes(reflect.TypeFor[Event](), ext.ParseStructTag("json")),
		cel.Variable("event", cel.ObjectType("notification.Event")),
	)
})

// compileFilter checks a filter: event.flow == "Backup" && event.labels.team == "blue".
func compileFilter(text string) (cel.Program, error) {
	if len(text) > celenv.MaxLength {
		return nil, fmt.Errorf("the expression has more than %d bytes", celenv.MaxLength)
	}
	env, err := filterEnv()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, fmt.Errorf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, celenv.Message(first.Message))
	}
	if t := checked.OutputType(); t != cel.BoolType {
		return nil, fmt.Errorf("the expression is a %s, not true or false", t)
	}
	return celenv.Program(env, checked)
}

// holds evaluates a filter. What cannot be evaluated, as a label that is not there, does not hold.
func holds(filter cel.Program, e Event) bool {
	out, _, err := filter.Eval(map[string]any{"event": e})
	return err == nil && out.Value() == true
}
