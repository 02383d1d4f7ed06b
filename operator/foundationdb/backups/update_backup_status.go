package backups

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// Finalizer holds a backup until its deletionPolicy has been carried out. Source: fdb-kubernetes-operator 2.33.0,
// api/v1beta2/foundationdb_constants.go.
const Finalizer = "foundationdb.org/fdb-kubernetes-operator"

// updateBackupStatus says what keeps the whole pass from going on, and keeps the finalizer as the deletionPolicy needs
// it, before anything is started that it would have to end. What was read stands in the status already.
func updateBackupStatus(p *pass) chain.Decision[*pass] {
	switch {
	case p.refused != nil:
		return waits(p.refused)
	case p.cluster == nil:
		return chain.Decision[*pass]{Outcome: outcome.Wait(retry, "ClusterMissing", "there is no cluster %q", p.backup.Spec.ClusterName)}
	}
	var d chain.Decision[*pass]
	if has := slices.Contains(p.backup.Finalizers, Finalizer); has != p.needsFinalizer() {
		d.Acts = append(d.Acts, finalizerAct(!has))
	}
	switch {
	case !p.managed() || p.silence == nil:
	case p.unmade:
		d.Outcome = outcome.Later(retry, "ClusterUnmade", "%s", fault.Message(p.silence))
	default:
		d.Outcome = outcome.Later(retry, fault.Of(p.silence).Reason(), "%s", condition.Message(p.silence))
	}
	return d
}

func (f *facts) needsFinalizer() bool {
	policy := f.backup.Spec.DeletionPolicy
	return f.managed() && (policy == v1beta2.BackupDeletionStop || policy == v1beta2.BackupDeletionCleanup)
}

// finalizerAct adds our finalizer, or removes it.
func finalizerAct(add bool) chain.Act[*pass] {
	name := "remove finalizer"
	if add {
		name = "add finalizer"
	}
	list := func(p *pass) []string {
		others := slices.DeleteFunc(slices.Clone(p.backup.Finalizers), func(f string) bool { return f == Finalizer })
		if add {
			return append(others, Finalizer)
		}
		return others
	}
	return chain.Act[*pass]{
		Name: name, Targets: []string{Finalizer},
		Assume: func(p *pass) { p.backup.Finalizers = list(p) },
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return outcome.Fail(p.patch(ctx, map[string]any{"finalizers": list(p)}))
		},
	}
}

// readAgain reads the backup once more after it was changed, so that the status shows it.
func readAgain(p *pass) chain.Decision[*pass] {
	var d chain.Decision[*pass]
	if p.asked {
		d.Acts = []chain.Act[*pass]{{Name: "read backup", Targets: []string{p.tag()}, Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if p.live, p.silence = p.ask(ctx, &p.facts); p.silence == nil {
				p.observe()
			}
			return p.unreconciled()
		}}}
		return d
	}
	d.Outcome = p.unreconciled()
	return d
}

// unreconciled asks for another look while something is still to come.
func (p *pass) unreconciled() outcome.Outcome {
	if p.silence != nil && p.managed() {
		return outcome.Later(retry, port.DatabaseSilent.Reason(), "%s", condition.Message(p.silence))
	}
	v := p.wish()
	g := v.Generations
	switch {
	case v.Reconciled:
		return outcome.Done()
	case g.NeedsBackupAgentUpdate != 0:
		return outcome.Later(retry, "AgentsComing", "%d of %d agents are ready", p.backup.Status.AgentCount, p.agentCount())
	case g.NeedsBackupStart != 0:
		return outcome.Later(retry, "Starting", "the backup %s does not run yet", p.tag())
	case g.NeedsBackupStop != 0:
		return outcome.Later(retry, "Stopping", "the backup %s ends at its next restorable version", p.tag())
	case g.NeedsBackupPauseToggle != 0:
		return outcome.Later(retry, "Toggling", "the agents are not yet as they should be")
	default:
		return outcome.Later(retry, "Modifying", "the backup %s does not yet have its period and its place", p.tag())
	}
}

func (f *facts) knowsEncryption() bool {
	v, err := fdb.ParseVersion(f.backup.Spec.Version)
	return err == nil && v.Has(fdb.FeatureBackupEncryption)
}
