package flowfile

import "testing"

// What fails in every run, or looks for a fault that cannot come, is an error of the file.
func TestWhatNoRunCanMeanIsAnError(t *testing.T) {
	for _, c := range []struct{ step, says string }{
		{`uses: exec, with: {shell: "exit 3", faults: {3: NOBODY_KNOWS}}`, "exit code 3 stands for NOBODY_KNOWS, which is not declared here: declare it in a *_faults.yaml"},
		{`uses: exec, with: {shell: "exit 3", faults: {3: TIMEOUT}}`, ""},
		{`uses: exec, retry: {not: [NOBODY_KNOWS]}, with: {shell: "true"}`, "retry.not names NOBODY_KNOWS, which is not declared here: declare it in a *_faults.yaml"},
		{`uses: exec, retry: 3, with: {shell: "true"}`, `retry must be a mapping, not "3": write {attempts: 3}`},
		{`uses: exec, with: {shell: "echo ${input.who}"}`, `a shell script holds no expressions, and to the shell ${input.who} is a bad substitution: add env: {NAME: "${input.who}"} to with, and write "$NAME" in the script`},
		{`uses: exec, with: {shell: "echo ${input} ${HOME} ${x#y} ${x%.*} $input.who"}`, ""},
		{`uses: exec, with: {command: [echo, "${input.who}"]}`, ""},
	} {
		_, err := Parse([]File{{"f.yaml", []byte("flowName: F\ninput: {type: object, properties: {who: {type: string, default: a}}}\nsteps:\n- {stepName: S, " + c.step + "}\n")}}, Options{Actions: fleetActions, AnyAction: true})
		var problems Problems
		if err != nil {
			problems = err.(Problems)
		}
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.step, err)
		case c.says != "" && (len(problems) != 1 || problems[0].Message != c.says || problems[0].Line != 4):
			t.Errorf("%s: got %v, want %s", c.step, err, c.says)
		}
	}
}
