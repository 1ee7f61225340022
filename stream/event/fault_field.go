package event

import "strconv"

func givenTwice(name string) *Fault {
	return faultf(DuplicateField, "%s is given twice", name).at(name)
}

func tooManyCandidates(n, most int) *Fault {
	return faultf(TooManyCandidates, "%d candidates, at most %d are allowed", n, most).at("candidates")
}

// within prepends a list element to a fault's pointer.
func within(f *Fault, list string, i int) *Fault {
	f.Detail = list + "[" + strconv.Itoa(i) + "]: " + f.Detail
	return f.at(strconv.Itoa(i)).at(list)
}

func missingItem() *Fault { return faultf(MissingItem, "item is absent or empty").at("item") }

func sameItem(i int, item []byte) *Fault {
	return faultf(DuplicateItem, "candidates[%d].item %s has occurred before", i, quote(item)).at("item").at(strconv.Itoa(i)).at("candidates")
}
