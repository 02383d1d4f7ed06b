package flowfile

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// aggregates are the functions sum, min and max of a list: sum(steps.Each.output) or
// steps.Each.output.sum(). They ignore null, which is the output of an iteration without output.
// The sum of an empty list is 0; min and max of an empty list fail.
func aggregates() []cel.EnvOption {
	fold := func(name string, empty ref.Val, join func(all, next ref.Val) ref.Val) cel.EnvOption {
		bind := cel.UnaryBinding(func(list ref.Val) ref.Val {
			var all ref.Val
			for it := list.(traits.Lister).Iterator(); it.HasNext() == types.True; {
				next := it.Next()
				if next.Type() == types.NullType {
					continue
				}
				if all == nil {
					if name == "sum" {
						next = join(types.IntZero, next) // fails for a list of texts
					}
					all = next
					continue
				}
				if all = join(all, next); types.IsUnknownOrError(all) {
					return all
				}
			}
			if all == nil {
				return empty
			}
			return all
		})
		list := []*cel.Type{cel.ListType(cel.DynType)}
		return cel.Function(name, cel.Overload(name+"_list", list, cel.DynType, bind), cel.MemberOverload("list_"+name, list, cel.DynType, bind))
	}
	pick := func(sign types.Int) func(all, next ref.Val) ref.Val {
		return func(all, next ref.Val) ref.Val {
			comparer, ok := all.(traits.Comparer)
			if !ok {
				return types.MaybeNoSuchOverloadErr(all)
			}
			switch order := comparer.Compare(next); {
			case types.IsUnknownOrError(order):
				return order
			case order == sign:
				return next
			}
			return all
		}
	}
	none := func(name string) ref.Val { return types.NewErr("%s of an empty list", name) }
	return []cel.EnvOption{fold("sum", types.IntZero, add), fold("min", none("min"), pick(types.IntOne)), fold("max", none("max"), pick(types.IntNegOne))}
}

// add adds two numbers of any type. The sum is a whole number if both are.
func add(a, b ref.Val) ref.Val {
	switch a.Type() {
	case types.IntType, types.UintType, types.DoubleType:
	default:
		return types.MaybeNoSuchOverloadErr(a)
	}
	switch b.Type() {
	case types.IntType, types.UintType, types.DoubleType:
	default:
		return types.MaybeNoSuchOverloadErr(b)
	}
	if a.Type() != b.Type() {
		kind := ref.Type(types.IntType)
		if a.Type() == types.DoubleType || b.Type() == types.DoubleType {
			kind = types.DoubleType
		}
		if a = a.ConvertToType(kind); types.IsUnknownOrError(a) {
			return a
		}
		if b = b.ConvertToType(kind); types.IsUnknownOrError(b) {
			return b
		}
	}
	return a.(traits.Adder).Add(b)
}
