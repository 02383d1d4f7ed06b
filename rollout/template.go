package rollout

// movesInPlace reports whether the rollout changes the template of one workload.
func (j judgement) movesInPlace() bool {
	return j.at.Mode == Rollout && j.f.Target.Kind != Deployment
}

// template is the one that the workload has while pods are moved. It is empty where the workload's own
// template has no name: Applications name the templates of rollouts in place alone.
func (j judgement) template() string {
	switch {
	case j.at.Named && !j.movesInPlace():
		return ""
	case j.at.Rollback != nil && j.movesInPlace():
		return j.at.revertsTo()
	default:
		return j.at.TargetRevision
	}
}

// otherTemplate reports whether somebody has written another template.
func (j judgement) otherTemplate() bool {
	want, has := j.template(), j.f.Target.Template
	return want != "" && has != "" && has != want
}

// unseen reports whether somebody has written another template that the controller has not observed: the
// revisions in the status are those of the template before.
func (j judgement) unseen() bool { return !j.f.Target.observed() && j.otherTemplate() }

// steady reports whether the workloads are as the rollout has written them, and their controllers know it.
// Nothing is released before: a template that came in between would be released with it.
func (j judgement) steady() (Verdict, bool) {
	for i := -1; i < len(j.f.Sources); i++ {
		w := j.f.Target
		if i >= 0 {
			w = &j.f.Sources[i]
		}
		if !w.observed() {
			return busy("%s %s has not observed its newest spec", w.Kind, w.Name), false
		}
	}
	if j.otherTemplate() {
		return busy("%s %s has the template %s, and %s was recorded", j.f.Target.Kind, j.f.Target.Name, j.f.Target.Template, j.template()), false
	}
	return Verdict{}, true
}

// lostTemplate writes the template of an Application again that somebody has changed in the middle. Where
// the workload's own template is the target, another one is another target.
func lostTemplate(s *pass) {
	if s.at.State != InBatch || !s.at.Named || s.f.Target == nil || !s.judgement().otherTemplate() {
		return
	}
	t := *s.f.Target
	a := t.act("write the template again, and hold every pod")
	a.Template, a.Partition = s.at.TargetRevision, new(HoldAll)
	if t.Kind.pauses() && t.Paused {
		a.Paused = new(false)
	}
	s.act(Verdict{Acts: []Act{a}})
}
