package program

import (
	"os"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// serverOptions are the arguments of an fdbserver.
type serverOptions struct {
	p                       *Process
	public, listen          []string
	addresses               []fdb.Address
	file, seed, seedString  string
	dataDir                 string
	class                   fdb.Class
	locality                map[string]string
	zone, datacenter        string
	metricsFile, metricsKey string
}

// serverTable are the options of a version. Source: fdbserver/fdbserver.actor.cpp at 7.1.67, 7.3.69 and 7.4.6,
// g_rgOptions.
func serverTable(v fdb.Version) []option {
	common := `-C|--cluster-file= --seed-cluster-file= --seed-connection-string= -r|--role= -p|--public-address=
		-l|--listen-address= --data-filesystem= --rsssize= -d|--datadir= -L|--logdir= -Rs|--logsize= --maxlogs=
		--maxlogssize= --loggroup= --parentpid= --tracer= -n|--newconsole -q|--no-dialog --kvfile= -f|--testfile=
		-R|--restarting -s|--seed= -k|--key= -m|--memory= --memory-vsize= -M|--storage-memory= --cache-memory=
		-i|--machine-id= -a|--datacenter-id= -c|--class= -b|--buggify= -v|--version --build-flags --crash
		-N|--network= --unbufferedout --bufferedout --traceclock= --num-testers= -?|-h|--help --dev-help --knob-=
		--test-= --locality-= --testservers= --testonservers --metrics-cluster= --metrics-prefix= --io-trust-seconds=
		--io-trust-warn-only --trace-format= --whitelist-binpath= --config-path= --use-test-config-db
		-fi|--fault-injection= --profiler-= --print-sim-time --process-name= --process-endpoint=
		--consistency-check-urgent-mode`
	later := `--code-probes= --no-config-db --trusted-subnet-= --new-cluster-key= --authorization-public-key-file=
		--discover-kms-conn-url-file= --kms-connector-type= --kms-rest-allow-not-secure-connection
		--kms-conn-validation-token-details= --kms-conn-get-encryption-keys-endpoint=
		--kms-conn-get-latest-encryption-keys-endpoint= --kms-conn-get-blob-metadata-endpoint=
		--use-future-protocol-version=`
	switch v.Short() {
	case "7.1":
		return options(common, "--blob-credential-file=", tlsOptions)
	case "7.3":
		return options(common, later, "--blob-credential-file=", tlsOptions)
	}
	return options(common, later, "--blob-credentials= --proxy=", tlsOptions)
}

// serverClasses are what --class takes. Source: fdbrpc/include/fdbrpc/Locality.h at 7.1.67, 7.3.69 and 7.4.6.
const serverClasses = " storage transaction resolution commit_proxy proxy grv_proxy master test unset stateless log router " +
	"cluster_controller fast_restore data_distributor coordinator ratekeeper blob_manager blob_worker storage_cache backup " +
	"encrypt_key_proxy "

// serverRoles are what --role takes; only fdbd is played.
const serverRoles = " fdbd simulation test multitest skiplisttest search dsltest versionedmaptest createtemplatedb " +
	"networktestclient networktestserver restore kvfileintegritycheck kvfilegeneratesums kvfiledump consistencycheck " +
	"consistencycheckurgent unittests flowprocess changeclusterkey "

// mistakes are what fdbserver says of an argument.
var mistakes = map[mistake]string{
	argumentOption:  "ERROR: invalid argument to option `%s'\n",
	argumentGiven:   "ERROR: argument given for option `%s'\n",
	argumentMissing: "ERROR: missing argument for option `%s'\n",
	unknownOption:   "ERROR: unknown option: `%s'\n",
}

// teaser ends a program whose arguments are wrong.
func (p *Process) teaser(format string, args ...any) int {
	p.errorf(format, args...)
	p.errorf("Try `%s --help' for more information.\n", p.Args[0])
	return exitError
}

// serverOptions reads the arguments; nil: the program ends with that code.
func (p *Process) serverOptions() (*serverOptions, int) {
	o := &serverOptions{p: p, class: fdb.ClassUnset, locality: map[string]string{}}
	if len(p.Args) == 1 {
		p.help("fdbserver")
		return nil, exitError
	}
	a := arguments{table: serverTable(p.Version), exact: true, rest: p.Args[1:]}
	for {
		g, wrong, more := a.next()
		if !more {
			break
		}
		if wrong != noMistake {
			return nil, p.teaser(mistakes[wrong], g.text)
		}
		if exit := o.take(g); exit >= 0 {
			return nil, exit
		}
	}
	if exit := o.check(); exit >= 0 {
		return nil, exit
	}
	return o, 0
}

// take takes one option; the program ends with that code, -1: it goes on.
func (o *serverOptions) take(g given) int {
	p := o.p
	switch g.id {
	case "-?":
		p.help("fdbserver")
		return exitSuccess
	case "--dev-help":
		p.help("fdbserver")
		return exitSuccess
	case "-v":
		p.printf("%s", sim.VersionText("FoundationDB", p.Version))
		return exitSuccess
	case "-p":
		o.public = append(o.public, strings.Split(g.value, ",")...)
	case "-l":
		o.listen = append(o.listen, strings.Split(g.value, ",")...)
	case "-C":
		o.file = g.value
	case "--seed-cluster-file":
		o.seed = g.value
	case "--seed-connection-string":
		o.seedString = g.value
	case "-d":
		o.dataDir = g.value
	case "-i":
		o.zone = g.value
	case "-a":
		o.datacenter = g.value
	case "--metrics-cluster":
		o.metricsFile = g.value
	case "--metrics-prefix":
		o.metricsKey = g.value
	case "--locality-":
		o.locality[strings.ToLower(g.after())] = g.value
	case "-c":
		if !strings.Contains(o.classes(), " "+g.value+" ") || g.value == "" {
			return p.teaser("ERROR: Unknown machine class `%s'\n", g.value)
		}
		o.class = fdb.Class(g.value)
	case "-r":
		if !strings.Contains(serverRoles, " "+g.value+" ") || g.value == "" {
			return p.teaser("ERROR: Unknown role `%s'\n", g.value)
		}
		if g.value != "fdbd" {
			p.errorf("fdbsim plays no fdbserver with the role %s\n", g.value)
			return exitError
		}
	default:
		return o.takeNumber(g)
	}
	return -1
}

func (o *serverOptions) classes() string {
	if o.p.Version.Short() == "7.1" {
		return serverClasses
	}
	return serverClasses + "consistency_scan sim_http_server "
}

// takeNumber checks the options whose value has a form.
func (o *serverOptions) takeNumber(g given) int {
	p := o.p
	switch g.id {
	case "-Rs":
		if !isSize(g.value, true) {
			return p.teaser("ERROR: Could not parse logsize `%s'\n", g.value)
		}
	case "--maxlogssize":
		if !isSize(g.value, true) {
			return p.teaser("ERROR: Could not parse maxlogssize `%s'\n", g.value)
		}
	case "-m":
		if !isSize(g.value, false) {
			return p.teaser("ERROR: Could not parse memory limit from `%s'\n", g.value)
		}
	case "-M":
		if !isSize(g.value, false) {
			return p.teaser("ERROR: Could not parse storage memory limit from `%s'\n", g.value)
		}
	case "--cache-memory":
		if !isSize(g.value, false) {
			return p.teaser("ERROR: Could not parse cache memory limit from `%s'\n", g.value)
		}
	case "--maxlogs":
		if _, err := strconv.ParseUint(g.value, 10, 64); err != nil {
			return p.teaser("ERROR: Unrecognized maximum number of logs `%s'\n", g.value)
		}
	case "--traceclock":
		if g.value != "now" && g.value != "realtime" {
			return p.teaser("ERROR: Unknown clock source `%s'\n", g.value)
		}
	case "--trace-format":
		if g.value != "xml" && g.value != "json" {
			p.errorf("WARNING: Unrecognized trace format `%s'\n", g.value)
		}
	case "-N":
		if g.value != "net2" && g.value != "net2-threadpool" {
			return p.teaser("ERROR: Unknown network implementation `%s'\n", g.value)
		}
	}
	return -1
}

// isSize tells whether a text is a number with a unit; exact: it needs one.
func isSize(text string, exact bool) bool {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if digits == 0 {
		return false
	}
	switch text[digits:] {
	case "":
		return !exact
	case "B", "KB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB":
		return true
	}
	return false
}

// check checks what options say together.
func (o *serverOptions) check() int {
	p := o.p
	switch seeded := o.seed != "" || o.seedString != ""; {
	case o.seed != "" && o.seedString != "":
		p.errorf("--seed-cluster-file and --seed-connection-string may not both be specified at once.\n")
		return exitError
	case seeded && o.file == "":
		p.errorf("If -seed-cluster-file or --seed-connection-string is specified, -C must be specified as well.\n")
		return exitError
	case o.metricsFile != "" && o.metricsFile != o.file && o.metricsKey == "":
		p.errorf("If a metrics cluster file is specified, a metrics prefix is required.\n")
		return exitError
	}
	machine := o.zone
	if machine == "" {
		machine, _ = os.Hostname()
	}
	for _, key := range []string{fdb.ZoneLocality, "machineid"} {
		if o.locality[key] == "" {
			o.locality[key] = machine
		}
	}
	if o.datacenter != "" && o.locality[fdb.DatacenterLocality] == "" {
		o.locality[fdb.DatacenterLocality] = o.datacenter
	}
	return -1
}

// clusterFile reads the cluster file, or the seed while there is none; nil: the program ends with that code. The
// seed becomes the cluster file once the server has joined.
func (o *serverOptions) clusterFile() (*clusterFile, int) {
	p := o.p
	f := p.lookUp(o.file)
	if (o.seed == "" && o.seedString == "") || exists(f.path) {
		if problem, err := f.read(); err != nil {
			p.errorf("%s\nError: %s\n", problem, err.text)
			return nil, exitMainError
		}
		return &f, 0
	}
	text := o.seedString
	if o.seed != "" {
		content, err := os.ReadFile(p.path(o.seed))
		if err != nil {
			p.errorf("Unexpected error loading cluster file `%s': 1513 %s\nError: %s\n", o.seed, errFileUnreadable.text, errFileUnreadable.text)
			return nil, exitMainError
		}
		text = string(content)
	}
	c, err := fdb.ParseConnection(text)
	if err != nil {
		p.errorf("Invalid connection string `%s: 2104 %s\nError: %s\n", text, errConnectionInvalid.text, errConnectionInvalid.text)
		return nil, exitMainError
	}
	f.connection = c
	return &f, 0
}

// buildAddresses checks the addresses against each other and the coordinators; the program ends with that code, -1:
// it goes on. Source: buildNetworkAddresses.
func (o *serverOptions) buildAddresses(c fdb.Connection) int {
	p := o.p
	if len(o.public) == 0 {
		return p.teaser("ERROR: The -p or --public-address option is required\n")
	}
	if len(o.listen) > 0 && len(o.listen) != len(o.public) {
		p.errorf("ERROR: Listen addresses (if provided) should be equal to the number of public addresses in order.\n")
		return exitError
	}
	if len(o.public) > 2 {
		p.errorf("ERROR: maximum 2 public/listen addresses are allowed\n")
		return exitError
	}
	for i, text := range o.public {
		if port, auto := strings.CutPrefix(text, "auto:"); auto {
			text = "127.0.0.1:" + port
		}
		public, ok := parseServerAddress(text)
		if !ok {
			return p.teaser("ERROR: Could not parse network address `%s' (specify as IP_ADDRESS:PORT)\n", text)
		}
		if i < len(o.listen) && o.listen[i] != "public" {
			listen, ok := parseServerAddress(o.listen[i])
			if !ok {
				return p.teaser("ERROR: Could not parse network address `%s' (specify as IP_ADDRESS:PORT)\n", o.listen[i])
			}
			if listen.TLS != public.TLS {
				p.errorf("ERROR: TLS state of listen address: %s is not equal to the TLS state of public address: %s.\n", o.listen[i], text)
				return exitError
			}
		}
		for _, own := range c.Coordinators {
			if own.Host == public.Host && own.Port == public.Port && own.TLS != public.TLS {
				p.errorf("ERROR: TLS state of public address %s does not match in coordinator list.\n", text)
				return exitError
			}
		}
		o.addresses = append(o.addresses, public)
	}
	if len(o.addresses) == 2 && o.addresses[0].TLS == o.addresses[1].TLS {
		p.errorf("ERROR: only one public address of each TLS state is allowed.\n")
		return exitError
	}
	return -1
}
