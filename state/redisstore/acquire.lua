-- Takes a partition over. The same call again finds its own token and does nothing.
--
-- KEYS  1 meta, 2 pages, 3 deltas
-- ARGV  1 new token, 2 generation, 3 "1": also from a higher generation, 4 "1": begin afresh where nothing is stored,
--       then fields and values of a fresh meta
local call = redis.call
local meta = KEYS[1]
local at = call('HMGET', meta, 'token', 'generation', 'torn')
if not at[1] then
  if call('EXISTS', meta) == 1 then return {'BAD', 'meta is there, but has no token'} end
  if ARGV[4] ~= '1' then return {'NOSTATE'} end
  for _, key in ipairs({KEYS[2], KEYS[3]}) do
    if call('EXISTS', key) == 1 then return {'BAD', 'meta is missing, but ' .. key .. ' is there'} end
  end
  call('HSET', meta, 'token', ARGV[1], 'writer', ARGV[1], 'generation', ARGV[2], 'seq', '0', 'checkpoint', '',
    'torn', '', unpack(ARGV, 5))
elseif at[3] and at[3] ~= '' then
  return {'TORN', at[3]}
elseif at[1] ~= ARGV[1] then
  local stored = tonumber(at[2])
  if not stored then return {'BAD', 'generation is not a number'} end
  if stored > tonumber(ARGV[2]) and ARGV[3] ~= '1' then return {'GENERATION', at[2]} end
  call('HSET', meta, 'token', ARGV[1], 'generation', ARGV[2])
end
return {'OK', call('HGETALL', meta)}
