package fdb

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// ParametersInvalid says that custom parameters cannot be used.
var ParametersInvalid = fault.Declare(fault.Kind{
	Code: "FDB_PARAMETERS_INVALID", Class: fault.Invalid,
	Title:  "custom parameters cannot be used",
	Remedy: "Write each parameter once, as name=value on one line; leave out datadir and what fdbmonitor reads itself.",
	Guide:  "foundationdb.md#change-it",
})

// refusedParameters are names that the operator or fdbmonitor sets, with underscores: fdbmonitor and
// fdbserver take hyphens for underscores. Sources: fdb-kubernetes-operator 2.33.0,
// api/v1beta2/foundationdb_custom_parameter.go; foundationdb 7.3.69, fdbmonitor/fdbmonitor.cpp,
// get_value_multi.
var refusedParameters = map[string]string{
	"datadir":                      "the operator sets it",
	"cluster_file":                 "fdbmonitor reads it",
	"delete_envvars":               "fdbmonitor reads it",
	"kill_on_configuration_change": "fdbmonitor reads it",
	"disable_lifecycle_logging":    "fdbmonitor reads it",
	"restart_delay":                "fdbmonitor reads it",
	"initial_restart_delay":        "fdbmonitor reads it",
	"restart_backoff":              "fdbmonitor reads it",
	"restart_delay_reset_interval": "fdbmonitor reads it",
	"user":                         "fdbmonitor reads it",
	"group":                        "fdbmonitor reads it",
}

var (
	parameterName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	controls      = regexp.MustCompile(`[\x00-\x08\x0a-\x1f\x7f]`)
)

// ParameterName returns the name of a custom parameter: what stands before the first =, without
// white space around it.
func ParameterName(parameter string) string {
	name, _, _ := strings.Cut(parameter, "=")
	return strings.TrimSpace(name)
}

// CheckParameters refuses custom parameters of fdbserver that are there twice, that the operator or
// fdbmonitor sets, or that are not one line of name=value. It fails with ParametersInvalid, which
// tells all of them.
func CheckParameters(list []string) error {
	var problems []string
	seen := map[string]bool{}
	for _, parameter := range list {
		name := ParameterName(parameter)
		plain := strings.ReplaceAll(name, "-", "_")
		switch {
		case !parameterName.MatchString(name):
			problems = append(problems, strconv.Quote(name)+" is no name of a parameter")
		case controls.MatchString(parameter):
			problems = append(problems, strconv.Quote(name)+" has a line break or another control character")
		case refusedParameters[plain] != "":
			problems = append(problems, strconv.Quote(name)+" cannot be set: "+refusedParameters[plain])
		case seen[plain]:
			problems = append(problems, strconv.Quote(name)+" is there twice")
		}
		seen[plain] = true
	}
	if problems == nil {
		return nil
	}
	return ParametersInvalid.Errorf("%s", strings.Join(problems, "; "))
}

// BackupKnobs returns the arguments of fdbbackup and fdbrestore for custom parameters: all but
// localities, which only servers and agents take.
func BackupKnobs(list []string) []string {
	var arguments []string
	for _, parameter := range list {
		argument := "--" + ParameterName(parameter)
		if _, value, ok := strings.Cut(parameter, "="); ok {
			argument += "=" + strings.TrimSpace(value)
		}
		if !strings.HasPrefix(argument, "--"+LocalityPrefix) {
			arguments = append(arguments, argument)
		}
	}
	return arguments
}
