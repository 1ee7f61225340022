package partition

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// A count that each forgets would never be counted.
func TestAccountsAddAndSubtractEveryCount(t *testing.T) {
	var a Account
	fields := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Array:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		default:
			fields++
			v.SetInt(int64(1 << fields))
		}
	}
	fill(reflect.ValueOf(&a).Elem())
	a.Crowded[event.Impressions] = 0 // they are never parked
	assert.Len(t, a.each(), fields-1)
	assert.Equal(t, Account{}, a.Minus(a))
	assert.Equal(t, a, a.Plus(a).Minus(a))
	assert.NotEqual(t, a, a.Plus(a))
}
