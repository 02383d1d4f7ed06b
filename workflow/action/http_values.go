package action

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"

	"github.com/pawl-dev/pawl/workflow/celenv"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// values is one scalar or a list of them.
type values []scalar

func (v *values) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]scalar)(v))
	}
	var one scalar
	err := one.UnmarshalJSON(data)
	*v = values{one}
	return err
}

// statuses is a set of HTTP statuses, and of connection errors.
type statuses struct {
	codes      []int // 204, or 2 for 2xx
	connection bool
}

func (s *statuses) UnmarshalJSON(data []byte) error {
	var list values
	if err := list.UnmarshalJSON(data); err != nil {
		return err
	}
	for _, item := range list {
		if item == "connection" {
			s.connection = true
			continue
		}
		code, err := strconv.Atoi(strings.TrimSuffix(string(item), "xx"))
		if err != nil {
			return fmt.Errorf("%q is not a status such as 204 or 2xx", item)
		}
		s.codes = append(s.codes, code)
	}
	return nil
}

func (s *statuses) holds(status int) bool {
	for _, code := range s.codes {
		if code == status || code == status/100 {
			return true
		}
	}
	return false
}

func (w httpWith) expect() *statuses {
	if w.Expect != nil {
		return w.Expect
	}
	return &statuses{codes: []int{2}}
}

func (w httpWith) retryOn() *statuses {
	if w.RetryOn != nil {
		return w.RetryOn
	}
	return &statuses{codes: []int{408, 425, 429, 5}, connection: true}
}

var responseEnv = sync.OnceValues(func() (*cel.Env, error) { return celenv.New(cel.Variable("response", cel.DynType)) })

func compileUntil(expression string) (cel.Program, error) {
	env, err := responseEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%s", strings.Join(strings.Fields(issues.Err().Error()), " "))
	}
	if out := ast.OutputType(); out != cel.BoolType && out != cel.DynType {
		return nil, fmt.Errorf("the expression yields %s, not a boolean", out)
	}
	return celenv.Program(env, ast)
}

// evaluateUntil reports whether a response is the expected one.
func evaluateUntil(ctx context.Context, expression string, got answer) (bool, error) {
	program, err := compileUntil(expression)
	if err != nil {
		return false, err
	}
	headers := make(map[string]any, len(got.headers))
	for name, text := range got.headers {
		headers[name] = text
	}
	response := map[string]any{"status": int64(got.status), "headers": headers, "json": nil, "body": readable(got.raw)}
	if got.json != nil {
		if response["json"], err = runtype.Decode(got.json); err != nil {
			return false, err
		}
	}
	out, _, err := program.ContextEval(ctx, map[string]any{"response": response})
	if err != nil {
		return false, err
	}
	met, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("%s yields %s, not a boolean", expression, out.Type().TypeName())
	}
	return met, nil
}
