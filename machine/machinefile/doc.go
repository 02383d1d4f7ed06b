// Package machinefile reads machines from YAML files.
//
//	machine: database
//	kind: database
//	initial: Init
//	any:
//	- {event: delete, to: Deleting, why: deletion was asked for, when: object.metadata.deleting}
//	observe:
//	- {name: health, every: 10s, uses: http, with: {url: "${input.object.status.url}/health"}, in: [Running]}
//	states:
//	  Init:        {on: [{event: create, to: Creating}]}
//	  Creating:    {flow: CreateDatabase, then: Running}
//	  Running:
//	    on:
//	    - event: resize
//	      to: Resizing
//	      why: the wanted size differs
//	      when: object.spec.size != object.status.size
//	      params: {size: object.spec.size}
//	  Resizing:    {flow: ResizeDatabase, then: Running}
//	  Interrupted: {rests: true}
//	  Deleting:    {action: exec, with: {shell: "rm -rf /srv/$NAME", env: {NAME: "${input.object.metadata.name}"}}, then: Deleted, else: Deleting}
//	  Deleted:     {}
//
// # Expressions
//
// when and params are CEL over three variables:
//
//	object   {kind, metadata: {namespace, name, uid, generation, labels, annotations, createdAt, deleting, deletionMark}, spec, status}
//	old      {metadata: {generation}, spec} as they were when the last event won; before the first one, those of the object
//	now      the time of the pass
//
// A field that may be missing is read as object.spec.?size.orValue(1), or
// guarded by has(object.spec.size). An expression that fails blocks the
// transitions behind it and is reported (EVENT_FAILED).
//
// # Input of runs
//
// params is one CEL expression, or a map whose strings are CEL; its value is
// the input of the run. Without params the input is {"object": …}: kind,
// metadata, spec, and the status but for what the driver keeps there. It is
// evaluated once, when the event wins.
//
// # Actions
//
// A state with action works by a flow of one step, which is made here and
// named <machine>.<state>. with is that of a flow's step: its ${…} sees input.
// retry, timeout and secrets are those of a step, too.
//
// # Observations
//
// observe gathers facts while an object rests, and keeps what the action sets
// as output in status.observed.<name>. See docs/adr/0030-observe.md.
//
// # A load
//
//	file ─▶ read (strict, every place is known) ─▶ compile (CEL, actions) ─▶ machine.Table.Check ─▶ machine.Standalone
//
// Every finding is reported at once, as file:line:column: message.
package machinefile
