#!/bin/sh
# Has one impression ranked, and sends its selection and its payoff, with kcat and jq:
#
#     sh rank.sh BROKERS [PREFIX]
#
# PREFIX is what the names of topics begin with, if anything.
set -eu
brokers=$1 prefix=${2:-}

# send publishes a record, whose key is its impression. All producers of these topics need one partitioner, and kcat's own
# default is not that of Java.
send() {
    printf '%s|%s\n' "$impression" "$2" | kcat -b "$brokers" -P -t "$prefix$1" -K '|' -X partitioner=murmur2_random -X acks=all
}

impression=i-$(date +%s)-$$ began=$(date +%s)000 now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
candidates='[{"item":"a","utility":0.1},{"item":"b","utility":0.7}]'
send impressions '{"impression_id":"'"$impression"'","learner":"feed","time":"'"$now"'","candidates":'"$candidates"'}'

tries=0
until ranking=$(kcat -b "$brokers" -C -t "${prefix}rankings" -o "s@$began" -e -q -f '%k %s\n' | grep "^$impression "); do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { echo "no ranking within 30 s: does a worker run? ranker-worker doctor names the cause" >&2; exit 1; }
    sleep 0.5
done
echo "to be shown: $(echo "${ranking#* }" | jq -r '.items | join(" ")')"

top=$(echo "${ranking#* }" | jq -r '.items[0]')
send selections '{"impression_id":"'"$impression"'","item":"'"$top"'","time":"'"$now"'"}' # what the user took
send payoffs '{"impression_id":"'"$impression"'","payoff":0.8,"time":"'"$now"'"}'           # days later, what it was worth
