-- Stores one checkpoint. Lua does not roll back, hence: what can be is checked before the first write, the mark
-- "torn" stands while the writes are under way, and all values are absolute, so that the same call repairs a torn
-- partition by doing everything again.
--
-- KEYS  1 meta, 2 pages, 3 deltas, then one key per group, in four sections: fields of named hashes set, of pages set,
--       of named hashes deleted, of pages deleted; last, hashes to be emptied before all that
-- ARGV  1 token, 2 seq, 3 checkpoint id, 4 seq + 1, 5 "1": write something even if the checkpoint is there already,
--       6 length of the deltas' stream, 7 field and 8 value of its entry, 9 to 12 the number of groups in each section,
--       13 twice the number of pages that begin, then bucket and number of each, then the groups: number of arguments, the arguments
local call, pcall = redis.call, redis.pcall
local meta, pages, deltas = KEYS[1], KEYS[2], KEYS[3]
local token, seq, id, nextseq = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local chunk = 4000 -- unpack fails above about 8,000

local at = call('HMGET', meta, 'token', 'seq', 'checkpoint', 'torn', 'writer')
local torn = at[4]
if torn == '' then torn = false end
if not at[1] then return {'NOSTATE'} end
if at[3] == id and not torn then
  -- WAIT, sent behind this call, waits for what its own connection wrote.
  if ARGV[5] == '1' then call('HSET', meta, 'checkpoint', id) end
  return {'OK'}
end
if at[1] ~= token then return {'FENCED', at[1], at[2]} end
if torn then
  if torn ~= id then return {'TORN', torn} end
  if at[2] ~= seq and at[2] ~= nextseq then return {'FENCED', at[1], at[2]} end
elseif at[2] ~= seq then
  return {'FENCED', at[1], at[2]}
end

-- Check the arguments, and the types of keys. Not those of the pages: each call costs half as much as the write, and
-- all pages are read, hence checked, behind every acquire.
local sections, counts, k = {}, {}, 3
local begun = tonumber(ARGV[13])
if not begun or begun < 0 or begun % 2 == 1 then return {'BAD', 'the pages that begin have no valid length'} end
local first = 14 + begun
local pos = first
for i = 1, 4 do
  sections[i] = tonumber(ARGV[8 + i])
  for _ = 1, sections[i] do
    k = k + 1
    local n = tonumber(ARGV[pos])
    if not n or n < 1 or (i < 3 and n % 2 == 1) then return {'BAD', 'group ' .. k .. ' has no valid length'} end
    counts[k] = n
    pos = pos + n + 1
    if i % 2 == 1 then call('HLEN', KEYS[k]) end
  end
end
if k > #KEYS or pos ~= #ARGV + 1 then return {'BAD', 'the arguments do not add up'} end
call('ZCARD', pages)
local dropped = k

local function send(command, key, first, n)
  local last, sum = first + n - 1, 0
  while last - first >= chunk do
    sum = sum + call(command, key, unpack(ARGV, first, first + chunk - 1))
    first = first + chunk
  end
  return sum + call(command, key, unpack(ARGV, first, last))
end

-- First of all, for a server that does not let us has changed nothing then.
for i = dropped + 1, #KEYS do call('UNLINK', KEYS[i]) end
call('HSET', meta, 'torn', id)
for at = 14, first - 1, chunk do call('ZADD', pages, 'NX', unpack(ARGV, at, math.min(at + chunk, first) - 1)) end
pos, k = first, 3
for _ = 1, sections[1] + sections[2] do
  k = k + 1
  local n = counts[k]
  if n == 2 then
    call('HSET', KEYS[k], ARGV[pos + 1], ARGV[pos + 2])
  else
    send('HSET', KEYS[k], pos + 1, n)
  end
  pos = pos + n + 1
end
for i = 1, sections[3] + sections[4] do
  k = k + 1
  -- Asked for before: while a cluster moves the slot, any command on a key that is gone is refused.
  local held = i > sections[3] and call('HLEN', KEYS[k])
  if send('HDEL', KEYS[k], pos + 1, counts[k]) == held then call('ZREM', pages, string.match(KEYS[k], '%d+$')) end
  pos = pos + counts[k] + 1
end
call('HSET', meta, 'checkpoint', id)
call('HSET', meta, 'seq', nextseq)

-- The first checkpoint of an owner leads on from the last of the owner before: "writer" is that one's token.
local entry = nextseq .. '-0'
local function publish()
  return pcall('XADD', deltas, 'MAXLEN', '~', ARGV[6], entry,
    'token', token, 'previous', at[5] or token, 'previous_seq', seq, ARGV[7], ARGV[8])
end
local added = publish()
if type(added) == 'table' and added.err then
  local there = pcall('XRANGE', deltas, entry, entry)
  if there.err or not there[1] or there[1][2][2] ~= token then
    -- Not ours: entries of a state that is gone, which its followers could take for this one's.
    call('DEL', deltas)
    added = publish()
    if type(added) == 'table' and added.err then return redis.error_reply(added.err) end
  end
end
call('HSET', meta, 'writer', token, 'torn', '')
return {'OK'}
