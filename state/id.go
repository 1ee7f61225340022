package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// ID is an impression's id as it is stored and held in memory: 16 bytes, whatever the text is like.
//
// A UUID in its canonical form, in lower case and of the variant that RFC 9562 defines, is its own 16 bytes, so that different
// UUIDs have different IDs. Any other text is 126 bits of its SHA-256, behind the two bits (11) of a variant that no such UUID
// has: so a UUID and a digest never meet, and which of the two an ID is can be told from it; see Hashed.
//
// Two texts with one digest would be taken for one impression. By the birthday bound the chance that there is any such pair among n
// texts is at most n²/2¹²⁷: of 10¹² ids, which a thousand impressions a second take 31 years to make, 6·10⁻¹⁵. Nobody can look for a
// pair with less than some 2⁶³ digests, and what it would bring is one ranking of the own two that is not made. The digest is
// not keyed: ids are carried over when partitions are cut anew, and a key would have to go with them for ever.
type ID [16]byte

// uuidBytes is the length of a UUID's text.
const uuidBytes = 36

// Where in a UUID the two bits of its variant are, and what they are.
const (
	variantByte = 8
	variantMask = 0b11 << 6
	variantUUID = 0b10 << 6
)

// IDOf is the ID of a text.
func IDOf(text []byte) ID {
	if id, ok := parseUUID(text); ok {
		return id
	}
	sum := sha256.Sum256(text)
	id := ID(sum[:len(ID{})])
	id[variantByte] |= variantMask
	return id
}

// Hashed tells whether the ID is a digest. Else Text gives the text that it was made of.
func (id ID) Hashed() bool { return id[variantByte]&variantMask != variantUUID }

// AppendText appends the text of an ID that is not Hashed, a UUID.
func (id ID) AppendText(dst []byte) []byte {
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}

// String is for people: a UUID's text, or the digest in hexadecimal behind "sha256:".
func (id ID) String() string {
	if id.Hashed() {
		return "sha256:" + hex.EncodeToString(id[:])
	}
	return string(id.AppendText(nil))
}

const hexDigits = "0123456789abcdef"

// parseUUID reads a UUID in its canonical form, in lower case.
func parseUUID(text []byte) (id ID, ok bool) {
	if len(text) != uuidBytes {
		return ID{}, false
	}
	at := 0
	for i := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			if text[at] != '-' {
				return ID{}, false
			}
			at++
		}
		high, low := nibbles[text[at]], nibbles[text[at+1]]
		if high|low > 15 {
			return ID{}, false
		}
		id[i] = high<<4 | low
		at += 2
	}
	return id, !id.Hashed()
}

// nibbles are the values of the hexadecimal digits in lower case, and 255 of all other bytes.
var nibbles = func() (all [256]byte) {
	for i := range all {
		all[i] = 255
	}
	for value, digit := range []byte(hexDigits) {
		all[digit] = byte(value)
	}
	return all
}()

// KeyHash is what Kafka's default partitioner makes of a record's key: the key belongs to the partition that is the rest when it is
// divided by their number. It is the Java client's murmur2 without its sign, and is stored with what lies under a Hashed id, whose
// text nobody has any more when partitions are cut anew.
func KeyHash(key []byte) uint32 {
	const m, r = 0x5bd1e995, 24
	h := uint32(0x9747b28c) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h = (h ^ h>>13) * m
	return (h ^ h>>15) & 0x7fffffff
}
