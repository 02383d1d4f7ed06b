// Package celenv is the CEL that people write in files and objects: one dialect, one set
// of limits, and messages without the parser's jargon. Flow files, machine files and gates
// extend its environment by their own variables.
//
//	env, err := celenv.New(cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)))
//	checked, issues := env.Compile(source)
//	program, err := celenv.Program(env, checked)
package celenv

import (
	"regexp"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
)

// The limits of one expression.
const (
	MaxLength = 8 << 10 // bytes of its text
	MaxCost   = 100_000 // units of work of one evaluation, as CEL counts them
	maxDepth  = 64
	maxText   = 300 // bytes of a message
)

var base = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		ext.Strings(), ext.Math(), ext.Lists(), ext.Sets(), ext.Encoders(), ext.TwoVarComprehensions(),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableIdentifierEscapeSyntax(),
		cel.DefaultUTCTimeZone(true),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserExpressionSizeLimit(MaxLength),
	)
})

// New returns the environment of all expressions, extended by options: variables, functions.
func New(options ...cel.EnvOption) (*cel.Env, error) {
	env, err := base()
	if err != nil {
		return nil, err
	}
	return env.Extend(options...)
}

// Program makes a program of a checked expression. Its evaluation fails beyond MaxCost, and
// ContextEval ends with its context.
func Program(env *cel.Env, checked *cel.Ast) (cel.Program, error) {
	return env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(MaxCost), cel.InterruptCheckFrequency(1000))
}

var jargon = regexp.MustCompile(` expecting \{.*\}| \(in container '[^']*'\)`)

// Message is what people are told of an error of CEL: one line without the parser's jargon, of
// at most 300 bytes.
func Message(text string) string {
	text = strings.TrimPrefix(strings.ReplaceAll(jargon.ReplaceAllString(text, ""), "mismatched input '<EOF>'", "the expression ends too early"), "Syntax error: ")
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\n", " ")
}
