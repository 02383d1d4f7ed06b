package cloudstacktest

import (
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

func (r *request) tagged() (cluster.Kind, error) {
	for kind, name := range resourceTypes {
		if strings.EqualFold(name, r.get("resourcetype")) {
			return kind, nil
		}
	}
	return "", refuse("resource type %s cannot be tagged", r.get("resourcetype"))
}

// edit changes the tags of all resources that the request names.
func (r *request) edit(change func(tags map[string]string) error) (answer, error) {
	kind, err := r.tagged()
	if err != nil {
		return answer{}, err
	}
	ids := r.texts("resourceids")
	var all []*sim.View
	for _, id := range ids {
		x, err := r.lookup(kind, id)
		if err != nil {
			return answer{}, err
		}
		if x == nil {
			return answer{}, refuse("Unable to find resource by id %s and type %s", id, r.get("resourcetype"))
		}
		all = append(all, x)
	}
	for i, x := range all {
		job := r.job
		if i > 0 {
			job = newID() // the request's job is that of the first
		}
		if _, err := r.client.EditAs(r.ctx, x.Ref(), job, func(tags map[string]string, _ *cluster.Spec) error { return change(tags) }); err != nil {
			return answer{}, err
		}
	}
	return answer{job: r.job}, nil
}

func createTags(r *request) (answer, error) {
	given, err := r.pairs("tags")
	if err != nil {
		return answer{}, err
	}
	if len(given) == 0 {
		return answer{}, refuse("no tags are given")
	}
	return r.edit(func(tags map[string]string) error {
		for key, value := range given {
			if _, there := tags[key]; there {
				return refuse("tag %s already on %s with id %s", key, r.get("resourcetype"), r.get("resourceids"))
			}
			if key == "" || len(key) > 255 || len(value) > 255 {
				return refuse("tag %q is empty or too long", key)
			}
			tags[key] = value
		}
		return nil
	})
}

func deleteTags(r *request) (answer, error) {
	given, err := r.pairs("tags")
	if err != nil {
		return answer{}, err
	}
	return r.edit(func(tags map[string]string) error {
		for key := range tags {
			if value, named := given[key]; len(given) == 0 || named && (value == "" || value == tags[key]) {
				delete(tags, key)
			}
		}
		return nil
	})
}

func listTags(r *request) (answer, error) {
	kinds := []cluster.Kind{cluster.VM, cluster.Network, cluster.Address, cluster.Firewall, cluster.Forward, cluster.Balancer}
	if r.get("resourcetype") != "" {
		kind, err := r.tagged()
		if err != nil {
			return answer{}, err
		}
		kinds = []cluster.Kind{kind}
	}
	offset, limit, err := r.page()
	if err != nil {
		return answer{}, err
	}
	var all []object
	for _, kind := range kinds {
		q := sim.Query{Kind: kind, ID: r.get("resourceid")}
		if !r.user.Admin {
			q.Owner = r.user.owner()
		}
		found, _, err := r.client.Select(r.ctx, q)
		if err != nil {
			return answer{}, err
		}
		for _, x := range found {
			for _, tag := range r.tags(x) {
				if (r.get("key") == "" || tag["key"] == r.get("key")) && (r.get("value") == "" || tag["value"] == r.get("value")) {
					all = append(all, tag)
				}
			}
		}
	}
	return answer{key: "tag", list: cut(all, offset, limit), total: len(all)}, nil
}

func cut(all []object, offset, limit int) []object {
	all = all[min(offset, len(all)):]
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return all
}
