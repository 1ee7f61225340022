-- Reads the fence and what is stored under ids, in their order, at one instant. It reads at least one, and ends where what
-- it has read comes to room bytes.
--
-- KEYS  1 meta, then the shard of each id
-- ARGV  1 the placement that the shards' keys are made by, 2 room, then the ids
-- Reply: OK, token, seq, then the values
local call = redis.call
local at = call('HMGET', KEYS[1], 'token', 'seq', 'torn', 'placement')
if not at[1] then return {'NOSTATE'} end
if at[3] and at[3] ~= '' then return {'TORN', at[3]} end
local placement = at[4] or ''
if placement ~= ARGV[1] then return {'PLACEMENT', placement} end
local out, room = {'OK', at[1], at[2]}, tonumber(ARGV[2])
for k = 2, #KEYS do
  local value = call('HGET', KEYS[k], ARGV[k + 1])
  out[k + 2] = value
  if value then
    room = room - #value
    if room <= 0 then break end
  end
end
return out
