// Package gate evaluates the gates of rollouts: CEL expressions over the batch, the workload, its pods,
// metrics and the time.
//
//	pods.filter(p, p.role == "voter" && p.ready).size() >= 2
//	now.getHours("Europe/Berlin") >= 22 || now.getHours("Europe/Berlin") < 5
//	metrics["error-rate"] < 0.01 && batch.index < 3
//
// An expression is checked against the types of the variables before the rollout begins.
package gate

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	_ "time/tzdata" // images without time zones

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/celenv"
)

// kept is how many programs a Set keeps.
const kept = 1000

// Set evaluates gates, and keeps their programs. The zero Set is ready to use, by several goroutines.
type Set struct {
	mu       sync.Mutex
	programs map[string]*program // by expression
}

var environment = sync.OnceValues(func() (*cel.Env, error) {
	return celenv.New(
		cel.EnableMacroCallTracking(), // explanations show what people wrote
		ext.NativeTypes(reflect.TypeFor[Rollout](), reflect.TypeFor[Batch](), reflect.TypeFor[Workload](), reflect.TypeFor[Pod](), ext.ParseStructTag("json")),
		cel.Variable("rollout", cel.ObjectType("gate.Rollout")),
		cel.Variable("batch", cel.ObjectType("gate.Batch")),
		cel.Variable("workload", cel.ObjectType("gate.Workload")),
		cel.Variable("pods", cel.ListType(cel.ObjectType("gate.Pod"))),
		cel.Variable("metrics", cel.MapType(cel.StringType, cel.DoubleType)),
		cel.Variable("now", cel.TimestampType),
	)
})

// program is one expression, checked.
type program struct {
	cel.Program
	checked *cel.Ast
	err     error // why it cannot be evaluated
}

func (s *Set) program(expression string) *program {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.programs[expression]; p != nil {
		return p
	}
	if s.programs == nil || len(s.programs) >= kept {
		s.programs = map[string]*program{}
	}
	p := compile(expression)
	s.programs[expression] = p
	return p
}

func compile(expression string) *program {
	if len(expression) > celenv.MaxLength {
		return &program{err: fmt.Errorf("the expression has more than %d bytes", celenv.MaxLength)}
	}
	env, err := environment()
	if err != nil {
		return &program{err: err}
	}
	checked, issues := env.Compile(expression)
	if err := issues.Err(); err != nil {
		first := issues.Errors()[0]
		return &program{err: fmt.Errorf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, celenv.Message(first.Message))}
	}
	if t := checked.OutputType(); t != cel.BoolType && t != cel.DynType {
		return &program{err: fmt.Errorf("the expression is a %s, not true or false", t)}
	}
	made, err := env.Program(checked, cel.EvalOptions(cel.OptTrackState), cel.CostLimit(celenv.MaxCost), cel.InterruptCheckFrequency(1000))
	return &program{Program: made, checked: checked, err: err}
}

// Finding is a gate of a plan that cannot be evaluated.
type Finding struct {
	Path string // of the expression, in the plan
	Gate string
	Err  error
}

func (f Finding) Error() string { return f.Path + ": gate " + f.Gate + ": " + f.Err.Error() }

// Findings are all gates of a plan that cannot be evaluated.
func (s *Set) Findings(p rollout.Plan) (all []Finding) {
	check := func(path string, gates []rollout.Gate) {
		for i, g := range gates {
			if err := s.program(g.Expression).err; err != nil {
				all = append(all, Finding{fmt.Sprintf("%sgates[%d].expression", path, i), g.Name, err})
			}
		}
	}
	check("", p.Gates)
	for i, b := range p.RolloutBatches {
		check(fmt.Sprintf("rolloutBatches[%d].", i), b.Gates)
	}
	return all
}

// Check is the first finding as a fault: GATE_INVALID with its field; nil: all can be evaluated.
func (s *Set) Check(p rollout.Plan) error {
	if all := s.Findings(p); all != nil {
		return rollout.GateInvalid.Errorf("%w", all[0]).With("field", all[0].Path)
	}
	return nil
}

// Evaluate answers a gate. Its answer is closed where the expression is false, fails, is none of true
// and false, or costs too much; then Value shows what it has seen.
func (s *Set) Evaluate(ctx context.Context, g rollout.Gate, v Variables) rollout.Answer {
	p := s.program(g.Expression)
	if p.err != nil {
		return rollout.Answer{Code: rollout.GateInvalid.Code, Message: p.err.Error()}
	}
	result, details, err := p.ContextEval(ctx, v.activation())
	if err != nil {
		return rollout.Answer{Code: rollout.GateClosed.Code, Message: celenv.Message(err.Error())}
	}
	open, isBool := result.Value().(bool)
	if !isBool {
		return rollout.Answer{Code: rollout.GateClosed.Code, Message: fmt.Sprintf("the expression is %v, not true or false", result.Value())}
	}
	return rollout.Answer{Open: open, Value: explain(p.checked, details.State(), open)}
}
