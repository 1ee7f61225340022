package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// ID is the stored form of an impression's id: 16 bytes for a text of any length.
//
// A UUID in canonical form, in lower case and of RFC 9562's variant, is stored as its 16 bytes. For other text the ID is 126 bits of its
// SHA-256, after two variant bits (11) that no such UUID has. So UUIDs and digests never collide.
//
// Two texts with one digest would count as one impression. For n texts the probability is at most n²/2¹²⁷ (birthday bound): 6·10⁻¹⁵ for
// 10¹² ids, 31 years of a thousand impressions a second. A deliberate pair takes some 2⁶³ digests, and costs its finder one ranking. The
// digest has no key, since resharding would have to keep the key for ever.
type ID [16]byte

const uuidBytes = 36

// Position and values of a UUID's two variant bits.
const (
	variantByte = 8
	variantMask = 0b11 << 6
	variantUUID = 0b10 << 6
)

func IDOf(text []byte) ID {
	if id, ok := parseUUID(text); ok {
		return id
	}
	sum := sha256.Sum256(text)
	id := ID(sum[:len(ID{})])
	id[variantByte] |= variantMask
	return id
}

// Hashed reports whether the ID is a digest, so that its text is unknown.
func (id ID) Hashed() bool { return id[variantByte]&variantMask != variantUUID }

// AppendText appends the text of an ID that is not Hashed.
func (id ID) AppendText(dst []byte) []byte {
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}

// String returns a UUID's text, or "sha256:" and the digest in hexadecimal.
func (id ID) String() string {
	if id.Hashed() {
		return "sha256:" + hex.EncodeToString(id[:])
	}
	return string(id.AppendText(nil))
}

const hexDigits = "0123456789abcdef"

// parseUUID reads a UUID in canonical form, in lower case.
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

// nibbles holds the values of lower-case hexadecimal digits, and 255 for other bytes.
var nibbles = func() (all [256]byte) {
	for i := range all {
		all[i] = 255
	}
	for value, digit := range []byte(hexDigits) {
		all[digit] = byte(value)
	}
	return all
}()

// PartitionOf returns a key's partition, among n, by Kafka's default partitioner.
func PartitionOf(key []byte, n int) int32 { return int32(KeyHash(key) % uint32(max(n, 1))) }

// KeyHash is the hash in Kafka's default partitioner: murmur2 as in the Java client, without its sign. A key's partition is KeyHash modulo
// the number of partitions. It is stored with the entries of Hashed ids, whose text resharding does not have.
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
